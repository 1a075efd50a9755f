// Shortcuts of the window.
#pragma once

#include <functional>
#include <span>

namespace infer::gui {

enum class Shortcut {
  new_conversation,
  search,
  open_model,
  send_stop,
  regenerate,
  copy_answer,
  rename,
  menu,
  options,
  page_chat,
  page_models,
  page_insight,
  page_tools,
  page_settings,
  larger_font,
  smaller_font,
  help,
  quit,
};

struct ShortcutHelp {
  Shortcut shortcut;
  const char* keys;  ///< "Ctrl+N"
  const char* does;
};
/// All of them, in the order in which F1 lists them.
std::span<const ShortcutHelp> shortcuts();

/// Whether it was pressed in this frame.
bool is_pressed(Shortcut shortcut);

/// The letters of shortcuts are those that the keyboard types, here and in ImGui's fields: called
/// whenever another layout may be in use. `name`: what a key types without Shift by its number in
/// GLFW, which is that of the US layout; null or empty: nothing.
void follow_layout(const std::function<const char*(int key)>& name);

}  // namespace infer::gui
