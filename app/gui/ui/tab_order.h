// Tab goes from control to control in the order in which they are drawn, and Enter presses the one
// that has the focus. With ImGui 1.86 Tab goes only to fields, and only Space presses.
#pragma once

#include <string_view>

namespace infer::gui::ui {

/// Adds the control that ImGui drew last to those that Tab reaches, and to the record.
void add_control(std::string_view kind, std::string_view name, std::string_view text,
                 bool on = false);
/// Before the controls of a frame. After Tab the next one of those of the last frame gets the
/// keyboard, with Shift the one before. While something is open it alone is meant.
void take_tab_and_enter();

}  // namespace infer::gui::ui
