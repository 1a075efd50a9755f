#include "gui/ui/record.h"

#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>

#include <algorithm>

namespace infer::gui::ui {
namespace {

bool g_on = false;
bool g_on_next = false;
std::vector<Drawn> g_drawn;
std::string g_prefix;  // of the open scopes, with a slash at its end

}  // namespace

void set_recording(bool on) { g_on_next = on; }
bool is_recording() { return g_on; }

void begin_record() {
  g_on = g_on_next;
  g_drawn.clear();
}

const std::vector<Drawn>& record() { return g_drawn; }

void add_rectangle(std::string_view kind, std::string_view name, std::string_view text, float left,
                   float top, float right, float bottom, bool on) {
  if (!g_on) return;
  Drawn drawn;
  drawn.name = g_prefix + std::string(name);
  drawn.kind = kind;
  drawn.text = text;
  const ImRect clip = ImGui::GetCurrentWindowRead()->ClipRect;
  drawn.left = std::max(left, clip.Min.x);
  drawn.top = std::max(top, clip.Min.y);
  drawn.right = std::min(right, clip.Max.x);
  drawn.bottom = std::min(bottom, clip.Max.y);
  drawn.visible = drawn.left < drawn.right && drawn.top < drawn.bottom;
  drawn.enabled = (ImGui::GetCurrentContext()->CurrentItemFlags & ImGuiItemFlags_Disabled) == 0;
  drawn.on = on;
  g_drawn.push_back(std::move(drawn));
}

void add_last_item(std::string_view kind, std::string_view name, std::string_view text, bool on) {
  if (!g_on) return;
  const ImVec2 least = ImGui::GetItemRectMin();
  const ImVec2 most = ImGui::GetItemRectMax();
  add_rectangle(kind, name, text, least.x, least.y, most.x, most.y, on);
  g_drawn.back().focused = ImGui::IsItemFocused();
}

Scope::Scope(std::string_view name) : before_(g_prefix.size()) {
  ImGui::PushID(name.data(), name.data() + name.size());
  if (g_on) g_prefix.append(name).push_back('/');
}

Scope::Scope(std::string_view name, int64_t number)
    : Scope(std::string(name) + ":" + std::to_string(number)) {}

Scope::~Scope() {
  g_prefix.resize(std::min(before_, g_prefix.size()));
  ImGui::PopID();
}

}  // namespace infer::gui::ui
