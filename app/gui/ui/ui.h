// The controls of the window: thin wrappers of Dear ImGui that look alike everywhere and record
// what they draw (record.h). A control's `name` identifies it among its neighbours; its label may
// change with the language of the text or the state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gui/ui/record.h"
#include "gui/ui/shown_text.h"

namespace infer::gui::ui {

enum class Tone { plain, primary, quiet, danger };

/// True in the frame in which it is pressed. `width`: in pixels; 0: as its label needs; below 0: so
/// much is left free on the right.
bool button(std::string_view name, std::string_view label, Tone tone = Tone::plain,
            float width = 0);
/// A small button without a frame, for a row of actions. `hint`: shown under the pointer.
bool action(std::string_view name, std::string_view label, std::string_view hint = {});
/// True if it changed, as all that follow.
bool checkbox(std::string_view name, std::string_view label, bool& value);
bool slider(std::string_view name, int64_t& value, int64_t least, int64_t most,
            const char* format = "%lld");
bool slider(std::string_view name, float& value, float least, float most,
            const char* format = "%.2f");
/// One of several choices from a list that opens.
bool choice(std::string_view name, size_t& index, const std::vector<std::string>& choices);
/// Several choices side by side, of which one is taken.
bool segments(std::string_view name, size_t& index, const std::vector<std::string>& choices);

struct InputOptions {
  std::string_view hint;    ///< shown while it is empty
  float width = -1;         ///< as button()
  bool focus = false;       ///< takes the keyboard now
  bool enter_ends = false;  ///< true is returned when Enter is pressed, not at every change
  bool read_only = false;
  bool secret = false;
  bool enter_submits = false;  ///< of several lines: Shift+Enter adds a line, not Enter
};
/// Escape ends it and keeps what was typed, here and in input_lines().
bool input(std::string_view name, std::string& text, const InputOptions& options = {});
/// Of a path: "~/" is the home folder, and others are completed, when the field is left.
bool input_path(std::string_view name, std::string& path, const InputOptions& options = {});
/// Several lines, `height` pixels. `submitted`: by Enter, if that is an option.
bool input_lines(std::string_view name, std::string& text, float height, bool& submitted,
                 const InputOptions& options = {});
/// A whole or a decimal number with what its absence means as hint. `set`: whether there is one.
/// Changes when the field is left, and what is no number changes nothing.
bool input_number(std::string_view name, double& value, bool& set, std::string_view hint,
                  bool whole);

/// A row that can be chosen, as wide as there is room. One with a height shows no label: see
/// line_at().
bool row(std::string_view name, std::string_view label, bool chosen, float height = 0);
/// A heading that shows or hides what follows. Returns whether it is open.
bool fold(std::string_view name, std::string_view label, bool open_at_first = false);
void progress(std::string_view name, double share, std::string_view label);

// Texts. A `name` is needed only where tests read it.

void text(std::string_view text, std::string_view name = {});
/// One line of at most so many pixels; what is longer ends in "…".
void cut(std::string_view text, float width, std::string_view name = {});
/// The same on what was drawn last, from a place to `right`; in pixels of the screen.
void line_at(float x, float y, float right, unsigned colour, std::string_view text);
/// Breaks lines where there is no more room.
void wrapped(std::string_view text, std::string_view name = {});
/// Less important: grey.
void faint(std::string_view text, std::string_view name = {});
void heading(std::string_view text, std::string_view name = {});
/// What went wrong, or may, with what to do; in the colour of the tone.
void notice(Tone tone, std::string_view text, std::string_view name);
/// Shown while the pointer rests on the last control.
void tooltip(std::string_view text);
/// A label on the left of the control that follows.
void label(std::string_view text, float width = 0);

// Areas.

/// A part of the window with its own scrolling. Use: if (auto area = Area("list", w, h)) { … }
class Area {
 public:
  /// `width`, `height`: 0: what is left; below 0: so much is left free.
  Area(std::string_view name, float width, float height, bool framed = false);
  ~Area();
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  explicit operator bool() const { return visible_; }

 private:
  Scope scope_;
  bool visible_;
};

/// A dialogue above everything else. open_dialog() shows it; Escape closes it.
void open_dialog(std::string_view name);
class Dialog {
 public:
  Dialog(std::string_view name, std::string_view title, float width);
  ~Dialog();
  Dialog(const Dialog&) = delete;
  Dialog& operator=(const Dialog&) = delete;
  explicit operator bool() const { return open_; }
  static void close();

 private:
  Scope scope_;
  bool open_;
};

/// Whether a menu, a list or a dialogue is open.
bool is_popup_open();

/// A menu at the pointer, or at the last control if a key opened it. `opens`: it does so now.
class Menu {
 public:
  Menu(std::string_view name, bool opens);
  ~Menu();
  Menu(const Menu&) = delete;
  Menu& operator=(const Menu&) = delete;
  explicit operator bool() const { return open_; }

 private:
  Scope scope_;
  bool open_;
};
bool menu_item(std::string_view name, std::string_view label, std::string_view shortcut = {},
               bool enabled = true);

/// Controls are grey and take no input while it lives, if `off`.
class Disabled {
 public:
  explicit Disabled(bool off);
  ~Disabled();
  Disabled(const Disabled&) = delete;
  Disabled& operator=(const Disabled&) = delete;

 private:
  bool off_;
};

}  // namespace infer::gui::ui
