// Breaks text into lines: prose at blanks and between CJK characters, long words where they must.
#pragma once

#include "gui/text/layout.h"

namespace infer::gui {

/// The face that a span of `style` has in text of face `base`.
Face face_of(uint8_t style, Face base);

/// Adds lines to a layout. Lives as long as the call that uses it.
class Wrapper {
 public:
  Wrapper(const Block& block, Face base, float line_spacing, const Measure& measure,
          BlockLayout& layout);

  /// Lays bytes [begin, end) from `y` down between `x` and `x` + `width`. There is a line even if
  /// there is no text. Returns the y below the last line.
  float wrap(size_t begin, size_t end, float x, float width, float y, Align align = Align::left);

  /// Width of bytes [begin, end) on one line, and of the longest word in it.
  struct Widths {
    float line = 0, word = 0;
  };
  Widths widths(size_t begin, size_t end) const;

 private:
  struct Room {
    float x, width, y;
    Align align;
    bool right_to_left;
  };

  const Span* span_at(size_t offset, const Span* hint) const;
  void add_line(size_t begin, size_t end, Room& room);
  float add_runs(size_t begin, size_t end, bool right_to_left, float x, float line_x);
  bool may_break(size_t at, size_t next, size_t end) const;

  const Block& block_;
  const Face base_;
  const float line_spacing_;
  const Measure& measure_;
  BlockLayout& layout_;
  const bool has_right_to_left_;
};

}  // namespace infer::gui
