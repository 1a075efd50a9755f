// Text that is being edited: the caret, what is selected, and what is undone. No ImGui.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gui/text/utf8.h"

namespace infer::gui {

/// Offsets are bytes and lie between clusters.
class TextEdit {
 public:
  const std::string& text() const { return text_; }
  size_t caret() const { return caret_; }
  TextRange selected() const;
  bool has_selection() const { return anchor_ != caret_; }
  std::string_view selected_text() const;

  /// Another text takes the place of this one. Nothing is selected, and nothing can be undone.
  void reset(std::string text);

  /// In place of what is selected. It is made fit for a text first: line ends become '\n', other
  /// control characters but tabs go away, and bytes that are not UTF-8 become U+FFFD.
  void insert(std::string_view text) { add(text, false); }
  /// The same of what is typed: characters one after the other are undone together.
  void type(std::string_view text) { add(text, true); }
  enum class Step : uint8_t { left, right, word_left, word_right, paragraph_start, start, end };
  /// Removes what is selected, or what the caret would pass.
  void erase(Step step);
  /// `selects`: what the caret passes is added to the selection. Without it a step to the left or
  /// right from a selection goes to its end.
  void move(Step step, bool selects);
  void move_to(size_t offset, bool selects);
  void select_all();
  void select(TextRange range);
  /// Words or paragraphs are selected whole.
  void select_word(size_t offset) { select(word_at(text_, offset)); }
  void select_paragraph(size_t offset);

  void undo() { take_back(undone_, done_); }
  void redo() { take_back(done_, undone_); }

 private:
  struct State {
    std::string text;
    size_t caret = 0, anchor = 0;
  };
  size_t target(Step step) const;
  void add(std::string_view text, bool types);
  void remember(bool joins);
  void replace(TextRange range, std::string_view with);
  void take_back(std::vector<State>& to, std::vector<State>& from);

  std::string text_;
  size_t caret_ = 0, anchor_ = 0;
  std::vector<State> done_, undone_;           ///< states before, and after what was undone
  size_t typed_to_ = static_cast<size_t>(-1);  ///< where typing goes on
};

}  // namespace infer::gui
