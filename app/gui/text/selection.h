// The selection in one document: what a mouse and the arrow keys make of it. No ImGui.
#pragma once

#include <cstdint>

#include "gui/text/document.h"

namespace infer::gui {

/// What a drag selects whole: a double click selects words, a triple click paragraphs.
enum class Grain : uint8_t { character, word, paragraph };

/// Positions outside the document count as its last one.
class Selection {
 public:
  /// A click at `at`. `extend`: with shift, the selection grows to there.
  void press(const Document& document, TextPosition at, Grain grain, bool extend);
  void drag(const Document& document, TextPosition at);
  void select_all(const Document& document);
  void clear() { anchor_ = head_ = {}; }
  /// Moves the end that moves, for shift and an arrow key.
  enum class Step : uint8_t { left, right, word_left, word_right, start, end };
  void move(const Document& document, Step step);
  void move_to(const Document& document, TextPosition at) {
    drag_to(document, at, Grain::character);
  }

  bool is_empty() const { return anchor_ == head_; }
  TextPosition first() const { return anchor_ < head_ ? anchor_ : head_; }
  TextPosition last() const { return anchor_ < head_ ? head_ : anchor_; }
  TextPosition head() const { return head_; }

 private:
  void drag_to(const Document& document, TextPosition at, Grain grain);

  TextPosition anchor_, head_;
  TextPosition pressed_first_, pressed_last_;  ///< what the press itself selected
  Grain grain_ = Grain::character;
};

}  // namespace infer::gui
