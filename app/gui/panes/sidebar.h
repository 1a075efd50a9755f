// The list of conversations at the left of the chat, with search and trash.
#pragma once

#include <string>

#include "gui/state/chat_state.h"

namespace infer::gui {

class Sidebar {
 public:
  explicit Sidebar(ChatState& chat) : chat_(chat) {}
  /// Fills the area that it is called in.
  void draw();
  /// The search gets the keyboard with the next frame.
  void focus_search() { focus_search_ = true; }
  /// The title of the conversation that is shown can be typed.
  void rename_current() { begin_rename(chat_.current(), chat_.title()); }
  /// Conversations that are to be exported; 0: none. Becomes 0 with this call.
  Id take_export() { return std::exchange(export_, 0); }

 private:
  void draw_list();
  void draw_import();
  void draw_hits();
  void draw_trash();
  void draw_trashed_messages();
  size_t trash_size() const;
  void draw_row(const conversations::Conversation& conversation);
  void draw_menu(const conversations::Conversation& conversation, bool opens);
  void draw_rename();
  void begin_rename(Id conversation, const std::string& title);

  ChatState& chat_;
  std::string query_;
  bool focus_search_ = false;
  Id renaming_ = 0;
  std::string new_title_;
  bool open_rename_ = false;
  Id export_ = 0;
};

}  // namespace infer::gui
