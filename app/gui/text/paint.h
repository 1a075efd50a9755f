// Draws one laid-out block into a draw list. Only lines within the clip rectangle are drawn.
#pragma once

#include "gui/text/look.h"

namespace infer::gui {

/// Selected bytes of a block's text.
struct SelectedRange {
  size_t begin = 0, end = 0;
  bool goes_on = false;  ///< into the next block: the last line is marked a little further
};

struct PaintedBlock {
  const Block& block;
  const BlockLayout& layout;
  ImVec2 origin;       ///< top left corner, below the gap
  float scroll_x = 0;  ///< of a table that is wider than the room
  SelectedRange selected;
};

class Painter {
 public:
  Painter(ImDrawList& list, const TextLook& look, const Measure& measure);

  void paint(const PaintedBlock& painted);
  /// Lines that paint() has drawn.
  size_t lines_drawn() const { return lines_drawn_; }

 private:
  void containers(const PaintedBlock& p);
  void marker(const PaintedBlock& p, const Container& container, float left, float right);
  void code_background(const PaintedBlock& p);
  void table_grid(const PaintedBlock& p);
  void lines(const PaintedBlock& p);
  void line(const PaintedBlock& p, const Line& line, ImVec2 origin);
  void selection(const PaintedBlock& p, const Line& line, ImVec2 origin);
  void run(const PaintedBlock& p, const Line& line, const Run& run, ImVec2 origin);
  void glyphs(const PaintedBlock& p, const Line& line, const Run& run, ImVec2 at, ImU32 colour);
  void cluster(const Block& block, size_t begin, size_t end, const Run& run, ImVec2 at, float width,
               ImU32 colour);
  ImU32 colour_of(const Run& run) const;
  float stroke() const;

  ImDrawList& list_;
  const TextLook& look_;
  const Measure& measure_;
  ImVec2 clip_min_, clip_max_;
  size_t lines_drawn_ = 0;
};

}  // namespace infer::gui
