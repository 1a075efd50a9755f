// The messages of the conversation that is shown, one below the other.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gui/fonts.h"
#include "gui/panes/image_previews.h"
#include "gui/state/chat_state.h"
#include "gui/text/text_view.h"

namespace infer::gui {

class Transcript {
 public:
  Transcript(ChatState& chat, Fonts& fonts, ImagePreviews& previews);
  /// The fonts or the theme have changed.
  void restyle();
  /// `has_keys`: Page Up, Page Down, Home and End scroll.
  void draw(bool has_keys);
  /// Whether all of it is laid out and the place that was asked for is in sight.
  bool is_settled() const { return settled_; }
  /// Bytes of text that were parsed or laid out so far, for tests.
  size_t worked_bytes() const;
  /// Whether a message is being edited and has another text by now, or the result of a call has
  /// been begun, in any conversation.
  bool has_edit() const;
  void copy_last_answer() const;
  void regenerate_last();

 private:
  /// A call of a tool.
  struct Call {
    std::unique_ptr<TextView> arguments, result;
    size_t arguments_bytes = 0, result_bytes = 0;  ///< that the views have
  };
  /// What is kept of a message from frame to frame.
  struct Item {
    std::unique_ptr<TextView> text, reasoning;
    size_t text_bytes = 0, reasoning_bytes = 0;  ///< that the views have
    bool finished = false;
    float height = 0;         ///< in pixels; 0: not known
    float rest = 0;           ///< of it without the text, when it was drawn last; 0: never
    float width = 0;          ///< that the height is for
    uint64_t generation = 0;  ///< of the look that it is for
    bool shows_reasoning = false;
    std::vector<Call> calls;
    std::vector<std::string> images;  ///< that the text of a user names
  };

  Item& item_of(const ShownMessage& shown);
  void feed(Item& item, const ShownMessage& shown);
  void draw_message(const ShownMessage& shown, Item& item);
  void draw_header(const ShownMessage& shown);
  void draw_branches(const ShownMessage& shown);
  void draw_reasoning(const ShownMessage& shown, Item& item, float width);
  void draw_editor();
  void draw_calls(const ShownMessage& shown, Item& item, float width);
  void draw_code(const char* name, std::unique_ptr<TextView>& view, size_t& have,
                 const std::string& text, float width);
  float measure(Item& item, const ShownMessage& message, float width);
  void take_keys();
  void scroll(float shift, std::optional<float> target);
  void draw_actions(const ShownMessage& shown);
  bool is_last(const ShownMessage& shown) const;
  void draw_footer(const conversations::Message& message);
  void draw_welcome();
  void draw_text(const char* name, TextView& view, float width);

  ChatState& chat_;
  Fonts& fonts_;
  ImagePreviews& previews_;
  TextContext context_;
  std::map<Id, Item> items_;
  Id conversation_ = -1;  ///< that the items are of
  /// A message that is being edited.
  struct Edit {
    Id message = 0;  ///< 0: none
    std::string text, before;
  };
  Edit edit_;
  std::map<Id, Edit> edits_;  ///< of the other conversations
  /// Results of calls before they are given, by message and call.
  std::map<std::pair<Id, size_t>, std::string> results_;
  bool begin_edit_ = false;
  float editor_height_ = 0;  ///< of the text in the editor, in pixels
  bool stick_ = true;        ///< the end of the text stays in sight
  bool at_end_ = false;      ///< the last frame has scrolled to the end
  float content_ = 0;        ///< height of all messages in the last frame, in pixels
  Id target_ = 0;            ///< a message that is to be at the top; 0: none
  int target_frames_ = 0;
  float usual_rest_ = 0;  ///< height of a message without its text
  bool settled_ = true;
};

}  // namespace infer::gui
