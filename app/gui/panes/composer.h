// The place at the lower end of the chat where the user writes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gui/panes/image_previews.h"
#include "gui/state/chat_state.h"

namespace infer::gui {

class Composer {
 public:
  Composer(ChatState& chat, ImagePreviews& previews) : chat_(chat), previews_(previews) {}
  /// Height in pixels that draw() takes at this width.
  float height() const;
  void draw();
  void focus() { focus_ = true; }
  /// Escape in this frame does not end what is being typed.
  void keep_keyboard() { keeps_ = true; }
  /// Adds a line to what is being written.
  void add_line(const std::string& line);
  /// Whether it had the keyboard in the last frame.
  bool is_active() const { return active_; }
  bool is_empty() const { return draft_.empty(); }
  /// Whether there is a draft, for whatever conversation.
  bool has_draft() const;

 private:
  void draw_full_context();
  void follow_conversation();
  void let_go_of_stored();

  ChatState& chat_;
  ImagePreviews& previews_;
  Id of_ = 0;  ///< the conversation that the draft is for
  std::string draft_;
  std::map<Id, std::string> drafts_;  ///< for others
  Id sent_to_ = 0;                    ///< where the draft was sent that is not stored yet
  std::string counted_;               ///< the draft that was counted last
  std::vector<std::string> images_;   ///< that it names
  int64_t counted_revision_ = -1;
  bool focus_ = true;
  bool keeps_ = false;
  bool active_ = false;
  float text_height_ = 0;  ///< of the draft in its field, in pixels
  float line_ = 0;
};

}  // namespace infer::gui
