// Shows one message as selectable text: Markdown in, draw calls of ImGui out.
//
// A view keeps the layout of its message. A frame lays out what has changed and what comes into
// sight, and a bounded piece of the rest; it draws the visible lines alone. One thread, the one
// that draws.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gui/text/look.h"
#include "gui/text/markdown.h"
#include "gui/text/paint.h"
#include "gui/text/selection.h"

namespace infer::gui {

class TextView;

/// Where the copy button of a block of code belongs.
struct CopyButton {
  ImVec2 min, max;   ///< on the screen
  size_t block = 0;  ///< number of the block in its message
  std::string_view language;
};

/// What a view asks of the window. Each may be empty.
struct TextActions {
  /// No font has this character. Told whenever it is laid out: remember it and merge a font.
  std::function<void(char32_t)> needs;
  /// A link was clicked. The address comes from the model: is_web_address() says whether it is one
  /// that a browser may be given.
  std::function<void(const std::string& address)> open_link;
  /// Draws the button and says whether it was pressed. Empty: the view draws a plain one.
  std::function<bool(const CopyButton&)> copy_button;
  /// Something was put into the clipboard.
  std::function<void(const std::string& text)> copied;
};

/// What the views of a window share. Lives longer than they do.
struct TextContext {
  TextLook look;
  TextActions actions;
  const TextView* selected = nullptr;  ///< the view that has the selection and the keys

  /// Null if the language is not known.
  const Highlighter* highlighter(std::string_view language);
  /// Bytes out of sight that all views together may still parse and lay out in this frame.
  size_t& budget();

 private:
  std::map<const Language*, Highlighter> highlighters_;
  size_t budget_ = 0;
  int frame_ = -1;
};

/// Whether `address` is http, https or mailto.
bool is_web_address(std::string_view address);

class TextView {
 public:
  explicit TextView(MarkdownOptions options = {}) : stream_(options) {}
  TextView(const TextView&) = delete;

  void append(std::string_view bytes) { stream_.append(bytes); }
  void finish() { stream_.finish(); }
  void set(std::string_view bytes);

  /// Height in pixels at this width. Exact where it was laid out, else about right: a conversation
  /// that is opened is parsed and laid out over several frames.
  float height(float width, TextContext& context);
  /// Draws at ImGui's cursor as one item called `name` and moves the cursor below it. Takes the
  /// mouse, and the keys while it has the selection: Ctrl+A, Ctrl+C, Escape, shift with arrows.
  void draw(const char* name, float width, TextContext& context);

  /// Whether the next frame looks the same. If not, it should follow soon: something is to be laid
  /// out, or a button says "Copied" for a moment.
  bool is_settled() const { return settled_ && !shows_copied_; }
  /// Pixels by which text above the visible part became longer in the last draw(). The window adds
  /// them to its scroll position, so that what is read stays in its place.
  float shift() const { return shift_; }

  const Document& document() { return stream_.document(); }
  const std::string& source() const { return stream_.source(); }
  Selection& selection() { return selection_; }
  std::string selected_text();

  /// Work done so far, for tests.
  struct Work {
    size_t laid_out_bytes = 0;
    size_t lines_drawn = 0;
  };
  const Work& work() const { return work_; }
  size_t parsed_bytes() const { return stream_.parsed_bytes(); }

 private:
  struct Entry {
    uint64_t id = 0;
    bool is_exact = false;
    float y = 0;       ///< top of the gap
    float height = 0;  ///< gap and block
    float scroll_x = 0;
    size_t text_size = 0;  ///< bytes that the layout knows
    BlockLayout layout;
  };
  struct Sight {
    float top, bottom;  ///< the visible part, from the view's top
  };

  /// Whether nothing has changed.
  bool follow_document(float width, TextContext& context);
  void lay_out_entry(size_t i, TextContext& context);
  void lay_out(Sight sight, TextContext& context);
  void place();
  size_t entry_at(float y) const;
  TextPosition position_at(ImVec2 point, const Measure& measure);
  int32_t link_at(ImVec2 point, const Measure& measure, size_t& block);
  SelectedRange selected_part(size_t block) const;

  void take_mouse(ImVec2 origin, TextContext& context, const Measure& measure);
  void take_keys(TextContext& context, const Measure& measure);
  void move_by_line(int lines, const Measure& measure);
  void scroll_while_dragging() const;
  void scroll_table(size_t i, ImVec2 origin, TextContext& context);
  void copy_button(size_t i, ImVec2 origin, TextContext& context);
  void copy(const std::string& text, TextContext& context) const;

  MarkdownStream stream_;
  Selection selection_;
  std::vector<Entry> entries_;
  float width_ = 0, height_ = 0;
  uint64_t generation_ = 0, revision_ = 0;
  bool settled_ = true, parsed_ = false, shows_copied_ = false, was_dragged_ = false;
  float shift_ = 0;
  size_t copied_block_ = static_cast<size_t>(-1);
  double copied_at_ = 0;
  Work work_;
};

}  // namespace infer::gui
