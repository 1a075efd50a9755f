#include "gui/ui/tab_order.h"

#include <GLFW/glfw3.h>
#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gui/ui/record.h"

namespace infer::gui::ui {
namespace {

struct Stop {
  ImGuiID id;
  ImGuiWindow* window;
  ImRect rectangle;  // from the corner of what the window holds
  bool is_field;
  bool has_enter;  // types into it
};
std::vector<Stop> g_stops;

/// The stop after or before that of this id gets the keyboard.
void move_from(ImGuiID id, bool back, std::vector<Stop> stops) {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  if (!g.OpenPopupStack.empty()) {
    const ImGuiWindow* const open = g.OpenPopupStack.back().Window;
    std::erase_if(stops, [&](const Stop& stop) { return stop.window->RootWindow != open; });
  }
  if (stops.empty()) return;
  const auto count = static_cast<std::ptrdiff_t>(stops.size());
  const auto found = std::ranges::find(stops, id, &Stop::id);
  std::ptrdiff_t next = found - stops.begin() + (back ? -1 : 1);
  if (found == stops.end()) next = back ? -1 : 0;
  const Stop& stop = stops[static_cast<size_t>((next + count) % count)];
  ImGui::ClearActiveID();
  ImGui::FocusWindow(stop.window);
  ImGui::SetNavID(stop.id, ImGuiNavLayer_Main, 0, stop.rectangle);
  const ImVec2 corner = stop.window->DC.CursorStartPos;
  ImRect seen = stop.rectangle;
  seen.Translate(corner);
  ImGui::ScrollToBringRectIntoView(stop.window, seen);
  g.NavDisableHighlight = false;
  g.NavDisableMouseHover = true;
  if (stop.is_field) {
    g.NavNextActivateId = stop.id;
    g.NavNextActivateFlags = ImGuiActivateFlags_PreferInput;
  }
}

}  // namespace

void add_control(std::string_view kind, std::string_view name, std::string_view text, bool on) {
  ImGuiWindow* const window = ImGui::GetCurrentWindow();
  const ImGuiLastItemData& item = ImGui::GetCurrentContext()->LastItemData;
  if ((item.InFlags & ImGuiItemFlags_Disabled) == 0) {
    const bool is_field = kind == "input";
    g_stops.push_back({item.ID, window, ImGui::WindowRectAbsToRel(window, item.Rect), is_field,
                       is_field || kind == "slider"});
  }
  add_last_item(kind, name, text, on);
}

void take_tab_and_enter() {
  std::vector<Stop> stops = std::exchange(g_stops, {});
  const ImGuiIO& io = ImGui::GetIO();
  if (io.KeyCtrl || io.KeyAlt) return;
  ImGuiContext& g = *ImGui::GetCurrentContext();
  const auto found = std::ranges::find(stops, g.NavId, &Stop::id);
  const bool enter =
      ImGui::IsKeyPressed(GLFW_KEY_ENTER, false) || ImGui::IsKeyPressed(GLFW_KEY_KP_ENTER, false);
  if (enter && g.ActiveId == 0 && io.NavVisible && found != stops.end() && !found->has_enter) {
    g.NavNextActivateId = found->id;
    g.NavNextActivateFlags = ImGuiActivateFlags_None;
  }
  if (ImGui::IsKeyPressed(GLFW_KEY_TAB)) move_from(g.NavId, io.KeyShift, std::move(stops));
}

}  // namespace infer::gui::ui
