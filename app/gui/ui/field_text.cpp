#include "gui/ui/field_text.h"

#include <imgui/imgui.h>

#include <utility>

#include "gui/text/stand_ins.h"

namespace infer::gui::ui {

/// As two surrogates where it has more than 16 bits. Its stand-in would not arrive: ImGui drops
/// typed characters of the private use area.
void add_typed(unsigned code) {
  ImGuiIO& io = ImGui::GetIO();
  if (code <= 0xFFFF) return io.AddInputCharacter(code);
  io.AddInputCharacter(0xD800 + ((code - 0x10000) >> 10));
  io.AddInputCharacter(0xDC00 + (code & 0x3FF));
}

FieldText::FieldText(std::string& text) : text_(text) {
  std::string_view edited;
  keeps_ = editable_text(text, edited_, edited);
  same_ = keeps_ && edited.data() == text.data();
  if (keeps_) return;
  std::string space;
  edited_ = drawn_text(text, space);
}

int FieldText::flags() const {
  return ImGuiInputTextFlags_CallbackCharFilter | (keeps_ ? 0 : ImGuiInputTextFlags_ReadOnly);
}

int FieldText::filter(ImGuiInputTextCallbackData* data) {
  static char32_t high = 0;
  const char32_t c = data->EventChar;
  const char32_t before = std::exchange(high, c >= 0xD800 && c < 0xDC00 ? c : 0);
  if (high != 0) return 1;
  if (c < 0xDC00 || c >= 0xE000) return 0;
  if (before == 0) return 1;
  const char32_t code = 0x10000 + ((before - 0xD800) << 10) + (c - 0xDC00);
  data->EventChar = static_cast<ImWchar>(stand_in(code, StandInUse::editing));
  return 0;
}

void FieldText::give_back() {
  if (!keeps_) return;
  const std::string& edited = *FieldText::edited();
  if (same_ && !has_stand_ins(edited)) return;
  text_ = without_stand_ins(edited);
}

}  // namespace infer::gui::ui
