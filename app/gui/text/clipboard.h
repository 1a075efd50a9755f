// The clipboard between the system and ImGui's fields, which hold stand-ins (stand_ins.h).
#pragma once

#include <string>

namespace infer::gui {

/// What ImGui's fields copy and paste is converted from now on, in the current context. Called when
/// the functions of the clipboard are set.
void convert_clipboard();

/// Puts a text on the clipboard as it is, also while a field has the keyboard.
void copy_text(const std::string& text);

}  // namespace infer::gui
