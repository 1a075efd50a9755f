// What a frame has drawn, by name: tests press buttons and read texts by it. Nothing is recorded
// unless it was asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace infer::gui::ui {

/// One thing on the screen.
struct Drawn {
  std::string name;  ///< with those of its scopes: "chat/send"
  std::string kind;  ///< "button", "text", "input", …
  std::string text;  ///< as shown: the label of a button, the contents of an input
  float left = 0, top = 0, right = 0, bottom = 0;  ///< in pixels of the window; clipped
  bool visible = false;                            ///< some of it is inside its scroll area
  bool enabled = true;
  bool focused = false;  ///< keys go to it
  bool on = false;       ///< a box is ticked, a row is selected, an input has the keyboard
};

/// Turns recording on or off, from the next frame on.
void set_recording(bool on);
bool is_recording();
/// Called when a frame begins: empties the record.
void begin_record();
/// The things of the last complete frame or of the one being drawn, in the order of drawing.
const std::vector<Drawn>& record();

/// Adds the thing that ImGui drew last.
void add_last_item(std::string_view kind, std::string_view name, std::string_view text,
                   bool on = false);
/// Adds a thing that occupies this rectangle.
void add_rectangle(std::string_view kind, std::string_view name, std::string_view text, float left,
                   float top, float right, float bottom, bool on = false);

/// Everything drawn while it lives has this name before its own, and ids of its own in ImGui.
class Scope {
 public:
  explicit Scope(std::string_view name);
  Scope(std::string_view name, int64_t number);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  size_t before_;
};

}  // namespace infer::gui::ui
