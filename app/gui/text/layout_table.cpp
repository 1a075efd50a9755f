#include <algorithm>
#include <cmath>

#include "gui/text/layout_parts.h"
#include "gui/text/wrap.h"

namespace infer::gui {
namespace {

constexpr float kWidestCell = 40;  ///< line heights
constexpr float kWidestWord = 10;  ///< a longer word may be broken

/// Widths of the columns' text. All fit into `room` if their longest words do.
std::vector<float> column_widths(const std::vector<Wrapper::Widths>& wanted, float room) {
  std::vector<float> widths;
  float lines = 0, words = 0;
  for (const Wrapper::Widths& column : wanted) {
    lines += column.line;
    words += column.word;
  }
  for (const Wrapper::Widths& column : wanted) {
    if (lines <= room) {
      widths.push_back(column.line);
    } else if (words >= room) {
      widths.push_back(column.word);
    } else {
      const float share = (room - words) / (lines - words);
      widths.push_back(column.word + (column.line - column.word) * share);
    }
  }
  return widths;
}

}  // namespace

void lay_out_table(const Block& block, const Measure& measure, const LayoutStyle& style,
                   BlockLayout& layout) {
  const size_t columns = block.columns.size();
  if (columns == 0) return;
  const float em = measure.ascent(Face::body) + measure.descent(Face::body);
  const float padding = std::floor(style.cell_padding * em);
  const size_t rows = block.cells.size() / columns;
  Wrapper header(block, Face::strong, style.line_spacing, measure, layout);
  Wrapper body(block, Face::body, style.line_spacing, measure, layout);

  std::vector<Wrapper::Widths> wanted(columns, {em, em});
  for (size_t i = 0; i < rows * columns; ++i) {
    const Cell& cell = block.cells[i];
    const Wrapper::Widths widths = (i < columns ? header : body).widths(cell.begin, cell.end);
    Wrapper::Widths& column = wanted[i % columns];
    // A little more than measured, so that rounding does not wrap a cell that fits.
    column.line = std::max(column.line, std::min(std::ceil(widths.line) + 1, kWidestCell * em));
    column.word = std::max(column.word, std::min(std::ceil(widths.word) + 1, kWidestWord * em));
    column.word = std::min(column.word, column.line);
  }
  const float room = layout.room - 2 * padding * static_cast<float>(columns);
  const std::vector<float> widths = column_widths(wanted, room);

  layout.column_edges.push_back(layout.indent);
  for (const float width : widths) {
    layout.column_edges.push_back(std::floor(layout.column_edges.back() + width + 2 * padding));
  }
  float y = 0;
  for (size_t row = 0; row < rows; ++row) {
    Band band;
    band.y = y;
    band.first_line = static_cast<uint32_t>(layout.lines.size());
    float bottom = y;
    for (size_t column = 0; column < columns; ++column) {
      const Cell& cell = block.cells[row * columns + column];
      const float x = layout.column_edges[column] + padding;
      const float below = (row == 0 ? header : body)
                              .wrap(cell.begin, cell.end, x, widths[column],
                                    y + std::floor(padding / 2), block.columns[column]);
      bottom = std::max(bottom, below + std::floor(padding / 2));
    }
    band.lines = static_cast<uint32_t>(layout.lines.size()) - band.first_line;
    band.height = bottom - y;
    layout.bands.push_back(band);
    y = bottom;
  }
  layout.width = layout.column_edges.back();
  layout.height = y;
}

}  // namespace infer::gui
