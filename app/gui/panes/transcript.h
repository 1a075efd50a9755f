// The messages of the conversation that is shown, one below the other.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "gui/fonts.h"
#include "gui/state/chat_state.h"
#include "gui/text/text_view.h"

namespace infer::gui {

class Transcript {
 public:
  Transcript(ChatState& chat, Fonts& fonts);
  /// The fonts or the theme have changed.
  void restyle();
  void draw();
  void copy_last_answer() const;
  void regenerate_last();

 private:
  /// What is kept of a message from frame to frame.
  struct Item {
    std::unique_ptr<TextView> text, reasoning;
    size_t text_bytes = 0, reasoning_bytes = 0;  ///< that the views have
    bool finished = false;
    float height = 0;  ///< in pixels, when it was drawn last; 0: never
    bool shows_reasoning = false;
    std::vector<std::string> results;  ///< of tools, being typed
  };

  Item& item_of(const ShownMessage& shown);
  void feed(Item& item, const ShownMessage& shown);
  void draw_message(const ShownMessage& shown, Item& item);
  void draw_header(const ShownMessage& shown);
  void draw_branches(const ShownMessage& shown);
  void draw_reasoning(const ShownMessage& shown, Item& item, float width);
  void draw_editor();
  void draw_calls(const ShownMessage& shown, Item& item);
  void draw_actions(const ShownMessage& shown);
  bool is_last(const ShownMessage& shown) const;
  void draw_footer(const conversations::Message& message);
  void draw_welcome();
  void draw_text(const char* name, TextView& view, float width);

  ChatState& chat_;
  Fonts& fonts_;
  TextContext context_;
  std::map<Id, Item> items_;
  Id conversation_ = -1;  ///< that the items are of
  Id editing_ = 0;
  std::string edited_;
  bool begin_edit_ = false;
  bool stick_ = true;  ///< the end of the text stays in sight
};

}  // namespace infer::gui
