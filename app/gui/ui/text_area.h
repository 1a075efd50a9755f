// A field of several lines. Lines are broken where there is no more room, and text is drawn as in
// messages: with the letters of all scripts, right to left where it runs so.
#pragma once

#include <string>
#include <string_view>

namespace infer::gui {
struct TextLook;
}

namespace infer::gui::ui {

/// How fields of several lines look; must outlive them. To be set before the first one is drawn.
void set_text_look(const TextLook* look);

struct TextArea {
  float width = 0, height = 0;  ///< in pixels
  std::string_view hint;        ///< shown while it is empty
  bool focus = false;           ///< takes the keyboard now
  bool read_only = false;
  bool enter_submits = false;  ///< then Shift+Enter adds a line
};

/// Draws it as one item of ImGui. `id`: as ImGui wants it. `submitted`: Enter was pressed, which
/// ends it. Returns whether the text has changed.
bool text_area(const char* id, std::string& text, const TextArea& area, bool& submitted);

/// Pixels that the text of the field that was drawn last takes, and a line of it.
float text_area_height();
float text_area_line();

}  // namespace infer::gui::ui
