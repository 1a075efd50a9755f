// Where everything of a block stands at a given width: lines of runs. No drawing and no fonts, only
// a Measure that knows how wide a character is. Units: pixels; y grows downwards.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gui/text/document.h"
#include "gui/text/highlight.h"

namespace infer::gui {

enum class Face : uint8_t {
  body,
  strong,
  emphasis,
  strong_emphasis,
  code,
  heading1,
  heading2,
  heading3,
};
constexpr size_t kFaces = 8;

class Measure {
 public:
  virtual ~Measure() = default;
  /// Width of a character. One that no font has gets the width of the box that is drawn for it.
  virtual float advance(Face face, char32_t code) const = 0;
  /// From the top of a line to its baseline, and from there to its bottom.
  virtual float ascent(Face face) const = 0;
  virtual float descent(Face face) const = 0;
};

/// Lengths as multiples of the body's line height, so that they follow size and scale of the font.
struct LayoutStyle {
  float line_spacing = 1.2f;  ///< of prose; code has 1.1
  float gap = 0.65f;          ///< between blocks
  float small_gap = 0.2f;     ///< between items of a tight list
  float item_indent = 1.5f;
  float quote_indent = 1.0f;
  float code_padding = 0.6f;
  float code_header = 1.7f;  ///< height of the strip with language and copy button
  float cell_padding = 0.5f;
};

/// A part of a line in one face, from left to right.
struct Run {
  uint32_t begin = 0, end = 0;
  float x = 0, width = 0;  ///< x from the block's left edge
  int32_t link = -1;
  Face face = Face::body;
  uint8_t style = 0;
  Token token = Token::plain;
  bool right_to_left = false;
  bool is_simple = false;  ///< printable ASCII only
};

struct Line {
  uint32_t begin = 0, end = 0;     ///< bytes; blanks at a wrap belong to the line before
  float x = 0, y = 0;              ///< from the block's top left corner
  float height = 0, baseline = 0;  ///< baseline from the line's top
  uint32_t first_run = 0, runs = 0;
};

/// Lines beside each other: a row of a table, or one line.
struct Band {
  float y = 0, height = 0;
  uint32_t first_line = 0, lines = 0;
};

struct BlockLayout {
  float gap = 0;     ///< space above
  float height = 0;  ///< without the gap
  float indent = 0;  ///< where the content begins
  float width = 0;   ///< of the content; wider than the room if a table must be scrolled
  float room = 0;    ///< for the content
  std::vector<Line> lines;
  std::vector<Run> runs;
  std::vector<Band> bands;          ///< table: rows
  std::vector<float> column_edges;  ///< table: x of the columns' borders, columns + 1
  std::vector<float> container_x;   ///< left edge of each container of the block

  /// Code that grows: where the next call goes on.
  struct Resume {
    size_t text = 0;  ///< bytes that will not change
    size_t lines = 0, runs = 0;
    HighlightState state;
    bool in_line = false;
  } resume;
};

/// Lays `block` out `width` pixels wide. `layout` is empty, or that of the same block at the same
/// width with less code: then only what is new is laid out. Linear in what is new.
void lay_out(const Block& block, float width, const Measure& measure, const LayoutStyle& style,
             const Highlighter* highlighter, BlockLayout& layout);

/// Height that the block will have about, without laying it out.
float estimated_height(const Block& block, float width, const Measure& measure,
                       const LayoutStyle& style);

/// Width of the cluster [begin, end) that stands `x` behind the start of its line.
float cluster_width(std::string_view text, size_t begin, size_t end, Face face, float x,
                    const Measure& measure);

/// x of byte `offset` within a run, from the block's left edge.
float x_in_run(const Block& block, const Line& line, const Run& run, size_t offset,
               const Measure& measure);

/// The place next to a point of the block.
uint32_t offset_at(const Block& block, const BlockLayout& layout, float x, float y,
                   const Measure& measure);

/// The first line or band whose bottom is below `y`.
size_t first_visible(const BlockLayout& layout, float y);

/// The line that holds `offset`; the last one if none does.
size_t line_of(const BlockLayout& layout, size_t offset);

}  // namespace infer::gui
