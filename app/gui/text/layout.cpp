#include "gui/text/layout.h"

#include <algorithm>
#include <cmath>

#include "gui/text/arabic.h"
#include "gui/text/layout_parts.h"
#include "gui/text/utf8.h"
#include "gui/text/wrap.h"

namespace infer::gui {
namespace {

constexpr float kTabColumns = 4;

float body_height(const Measure& measure) {
  return measure.ascent(Face::body) + measure.descent(Face::body);
}

/// Where the containers of a block begin. Deep nesting takes at most half of the width.
void place_containers(const Block& block, float width, const Measure& measure,
                      const LayoutStyle& style, BlockLayout& layout) {
  const float em = body_height(measure);
  layout.container_x.clear();
  float x = 0;
  for (const Container& container : block.containers) {
    layout.container_x.push_back(std::min(x, width / 2));
    if (container.kind == Container::Kind::quote) {
      x += style.quote_indent * em;
    } else {
      const float digits = static_cast<float>(container.digits) + 1.5f;
      const float number =
          container.kind == Container::Kind::number ? digits * measure.advance(Face::body, '0') : 0;
      x += std::max(style.item_indent * em, number);
    }
  }
  layout.indent = std::floor(std::min(x, width / 2));
  layout.room = std::max(width - layout.indent, 2 * em);
}

Face heading_face(uint8_t level) {
  switch (level) {
    case 1: return Face::heading1;
    case 2: return Face::heading2;
    case 3: return Face::heading3;
    default: return Face::strong;
  }
}

/// x of `offset` in a run, from the run's left edge.
float x_within(const std::string& text, const Run& run, size_t offset, float line_x,
               const Measure& measure) {
  float x = 0;
  const size_t end = std::min<size_t>(offset, run.end);
  for (size_t at = run.begin; at < end;) {
    const size_t next = cluster_end(text, at, run.end);
    x += cluster_width(text, at, next, run.face, run.x + x - line_x, measure);
    at = next;
  }
  return run.right_to_left ? run.width - x : x;
}

/// The place next to `x` in a line.
uint32_t offset_in_line(const Block& block, const BlockLayout& layout, const Line& line, float x,
                        const Measure& measure) {
  if (line.runs == 0) return line.begin;
  const Run* nearest = nullptr;
  float least = 0;
  for (size_t i = line.first_run; i < line.first_run + line.runs; ++i) {
    const Run& run = layout.runs[i];
    const float distance = std::max({run.x - x, x - run.x - run.width, 0.0f});
    if (nearest == nullptr || distance < least) {
      nearest = &run;
      least = distance;
    }
  }
  const Run& run = *nearest;
  float left = 0;
  const float wanted = run.right_to_left ? run.x + run.width - x : x - run.x;
  for (size_t at = run.begin; at < run.end;) {
    const size_t next = cluster_end(block.text, at, run.end);
    const float width =
        cluster_width(block.text, at, next, run.face, run.x + left - line.x, measure);
    if (wanted < left + width / 2) return static_cast<uint32_t>(at);
    left += width;
    at = next;
  }
  return run.end;
}

/// Marks take no room. They are measured nevertheless, which tells the fonts that they are needed.
float mark_width(Face face, char32_t code, const Measure& measure) {
  if (!is_invisible(code)) measure.advance(face, code);
  return 0;
}

template <typename T>
size_t first_below(const std::vector<T>& parts, float y) {
  const auto found = std::upper_bound(parts.begin(), parts.end(), y,
                                      [](float at, const T& p) { return at < p.y + p.height; });
  return static_cast<size_t>(found - parts.begin());
}

}  // namespace

void lay_out(const Block& block, float width, const Measure& measure, const LayoutStyle& style,
             const Highlighter* highlighter, BlockLayout& layout) {
  const float em = body_height(measure);
  const bool goes_on = block.kind == BlockKind::code && layout.resume.text <= block.text.size();
  if (!goes_on) layout = {};
  place_containers(block, width, measure, style, layout);
  layout.gap = std::floor((block.close_to_last ? style.small_gap : style.gap) * em);
  layout.width = layout.indent;
  switch (block.kind) {
    case BlockKind::rule: layout.height = std::floor(em); break;
    case BlockKind::code: lay_out_code(block, measure, style, highlighter, layout); break;
    case BlockKind::table: lay_out_table(block, measure, style, layout); break;
    case BlockKind::heading:
      layout.gap = std::floor(layout.gap * (block.level <= 2 ? 1.6f : 1.3f));
      [[fallthrough]];
    case BlockKind::paragraph: {
      const Face face = block.kind == BlockKind::heading ? heading_face(block.level) : Face::body;
      Wrapper wrapper(block, face, style.line_spacing, measure, layout);
      layout.height = wrapper.wrap(0, block.text.size(), layout.indent, layout.room, 0);
      break;
    }
  }
}

float estimated_height(const Block& block, float width, const Measure& measure,
                       const LayoutStyle& style) {
  const float em = body_height(measure);
  const Face face = block.kind == BlockKind::code ? Face::code : Face::body;
  const float advance = std::max(1.0f, measure.advance(face, 'n'));
  const float per_line = std::max(1.0f, width / advance);
  const auto breaks = static_cast<float>(std::ranges::count(block.text, '\n'));
  const float lines =
      breaks + 1 + std::floor(static_cast<float>(block.text.size()) / per_line / 1.2f);
  const float header =
      block.kind == BlockKind::code ? (style.code_header + style.code_padding) * em : 0;
  return std::ceil(lines * em * style.line_spacing + header);
}

float cluster_width(std::string_view text, size_t begin, size_t end, Face face, float x,
                    const Measure& measure) {
  const auto lead = static_cast<unsigned char>(text[begin]);
  if (lead == '\t') {
    const float stop = kTabColumns * measure.advance(face, ' ');
    return stop > 0 ? stop - std::fmod(x + 0.01f, stop) : 0;
  }
  if (lead == '\n') return 0;
  const Char first = char_at(text, begin);
  if (begin + first.length >= end && lead < 0x80) return measure.advance(face, first.code);
  float width = columns_of(first.code) > 0 ? measure.advance(face, joined_form(text, begin))
                                           : mark_width(face, first.code, measure);
  for (size_t at = begin + first.length; at < end;) {
    const Char c = char_at(text, at);
    if (!is_emoji_part(first.code, c.code)) {
      width += columns_of(c.code) > 0 ? measure.advance(face, c.code)
                                      : mark_width(face, c.code, measure);
    }
    at += c.length;
  }
  return width;
}

float x_in_run(const Block& block, const Line& line, const Run& run, size_t offset,
               const Measure& measure) {
  return run.x + x_within(block.text, run, offset, line.x, measure);
}

size_t first_visible(const BlockLayout& layout, float y) {
  return layout.bands.empty() ? first_below(layout.lines, y) : first_below(layout.bands, y);
}

size_t line_of(const BlockLayout& layout, size_t offset) {
  const auto found = std::upper_bound(layout.lines.begin(), layout.lines.end(), offset,
                                      [](size_t at, const Line& line) { return at < line.begin; });
  return found == layout.lines.begin() ? 0 : static_cast<size_t>(found - layout.lines.begin()) - 1;
}

uint32_t offset_at(const Block& block, const BlockLayout& layout, float x, float y,
                   const Measure& measure) {
  if (layout.lines.empty()) return 0;
  if (layout.bands.empty()) {
    const size_t line = std::min(first_below(layout.lines, y), layout.lines.size() - 1);
    return offset_in_line(block, layout, layout.lines[line], x, measure);
  }
  const size_t row = std::min(first_below(layout.bands, y), layout.bands.size() - 1);
  const size_t columns = block.columns.size();
  const auto edge =
      std::upper_bound(layout.column_edges.begin() + 1, layout.column_edges.end() - 1, x);
  const Cell& cell =
      block.cells[row * columns + static_cast<size_t>(edge - layout.column_edges.begin()) - 1];
  const Band& band = layout.bands[row];
  const Line* best = nullptr;
  for (size_t i = band.first_line; i < band.first_line + band.lines; ++i) {
    const Line& line = layout.lines[i];
    if (line.begin < cell.begin || line.end > cell.end) continue;
    if (best == nullptr || line.y <= y) best = &line;
  }
  return best == nullptr ? cell.begin : offset_in_line(block, layout, *best, x, measure);
}

}  // namespace infer::gui
