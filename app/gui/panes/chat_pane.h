// The page of the chat: list of conversations, messages, the place to write, settings.
#pragma once

#include "gui/panes/chat_options.h"
#include "gui/panes/composer.h"
#include "gui/panes/image_previews.h"
#include "gui/panes/replace_guard.h"
#include "gui/panes/sidebar.h"
#include "gui/panes/transcript.h"

namespace infer::gui {

class ChatPane {
 public:
  ChatPane(ChatState& chat, Fonts& fonts, WakeFn wake)
      : chat_(chat),
        previews_(std::move(wake)),
        sidebar_(chat),
        transcript_(chat, fonts, previews_),
        composer_(chat, previews_),
        options_(chat) {}
  void draw();
  void take_shortcuts();
  float composer_height() const { return composer_.height(); }
  /// Width in pixels of the settings beside the messages; 0: they are not shown.
  float options_width() const { return options_width_; }
  /// Adds what stands for a file to the message that is being written.
  void attach(const std::string& text) { composer_.add_line(text); }
  /// Whether something was typed that is not sent or saved, here or in another conversation.
  bool has_draft() const { return composer_.has_draft() || transcript_.has_edit(); }
  void restyle() { transcript_.restyle(); }
  /// The page is shown again: the keyboard is where one writes.
  void enter() { composer_.focus(); }
  /// Another page is shown, or the window is closed.
  void leave();
  /// Whether the next frame looks the same, if nothing happens.
  bool is_settled() const { return transcript_.is_settled(); }
  const Transcript& transcript() const { return transcript_; }

 private:
  void toggle_options();
  void draw_export();
  void write_export();

  ChatState& chat_;
  ImagePreviews previews_;
  Sidebar sidebar_;
  Transcript transcript_;
  Composer composer_;
  ChatOptions options_;
  bool shows_options_ = false;
  float options_width_ = 0;
  bool hides_list_ = false;  ///< there is no room for it
  Id exporting_ = 0;
  std::string export_path_, export_problem_;
  bool exported_ = false;  ///< the dialogue may close
  ReplaceGuard guard_;
};

}  // namespace infer::gui
