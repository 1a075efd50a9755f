#include "gui/ui/shown_text.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <utility>

#include "gui/text/stand_ins.h"

namespace infer::gui::ui {
namespace {

std::function<void(std::string_view)> g_text_hook;

}  // namespace

void set_text_hook(std::function<void(std::string_view)> hook) { g_text_hook = std::move(hook); }

void will_draw(std::string_view text) {
  if (!g_text_hook) return;
  const bool ascii =
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!ascii) g_text_hook(text);
}

ShownText::ShownText(std::string_view text) : text_(drawn_text(text, space_)) { will_draw(text); }

float ShownText::width() const { return ImGui::CalcTextSize(begin(), end()).x; }

}  // namespace infer::gui::ui
