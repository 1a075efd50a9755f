#include "gui/ui/shown_text.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <utility>

#include "gui/text/arabic.h"
#include "gui/text/stand_ins.h"
#include "gui/text/utf8.h"
#include "gui/text/visual_line.h"

namespace infer::gui::ui {
namespace {

std::function<void(std::string_view)> g_text_hook;

/// With letters in place of forms that the font lacks.
std::string with_forms_of_font(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const char32_t letter = letter_of_form(c.code);
    const bool lacks = letter != c.code && ImGui::GetFont()->FindGlyphNoFallback(
                                               static_cast<ImWchar>(c.code)) == nullptr;
    append_utf8(out, lacks ? letter : c.code);
    at += c.length;
  }
  return out;
}

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

ShownLine::ShownLine(std::string_view text, float width) : text_(text) {
  if (const ShownText whole(text); whole.width() > width) {
    const float room = std::max(0.0f, width - ImGui::CalcTextSize("…").x);
    const char* end = nullptr;
    ImGui::GetFont()->CalcTextSizeA(ImGui::GetFontSize(), room, 0, whole.begin(), whole.end(),
                                    &end);
    text_ = without_stand_ins(std::string(whole.begin(), end)) + "…";
  }
  std::string visual = visual_line(text_);
  if (visual != text_) {
    will_draw(visual);
    visual = with_forms_of_font(visual);
  }
  drawn_ = ShownText(visual).string();
}

}  // namespace infer::gui::ui
