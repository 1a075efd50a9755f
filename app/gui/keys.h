// Shortcuts of the window.
#pragma once

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

}  // namespace infer::gui
