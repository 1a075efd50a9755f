#include "gui/text/paint.h"

#include <algorithm>
#include <cmath>

#include "gui/text/arabic.h"
#include "gui/text/bidi.h"
#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

constexpr float kSlant = 0.2f;

/// Moves what was drawn since the list had `before` corners to the right, the more the higher it
/// stands above the baseline: there is no font for emphasis.
void slant(ImDrawList& list, int before, float baseline) {
  for (int i = before; i < list.VtxBuffer.Size; ++i) {
    ImVec2& corner = list.VtxBuffer[i].pos;
    corner.x += (baseline - corner.y) * kSlant;
  }
}

}  // namespace

Painter::Painter(ImDrawList& list, const TextLook& look, const Measure& measure)
    : list_(list),
      look_(look),
      measure_(measure),
      clip_min_(list.GetClipRectMin()),
      clip_max_(list.GetClipRectMax()) {}

float Painter::stroke() const { return std::max(1.0f, std::floor(look_.scale)); }

void Painter::paint(const PaintedBlock& p) {
  containers(p);
  const BlockLayout& layout = p.layout;
  const float left = p.origin.x + layout.indent;
  switch (p.block.kind) {
    case BlockKind::rule: {
      const float y = std::floor(p.origin.y + layout.height / 2);
      list_.AddRectFilled({left, y}, {left + layout.room, y + stroke()}, look_.colours.line);
      return;
    }
    case BlockKind::code:
      code_background(p);
      lines(p);
      return;
    case BlockKind::table: {
      list_.PushClipRect({left, clip_min_.y}, {left + layout.room + stroke(), clip_max_.y}, true);
      table_grid(p);
      lines(p);
      list_.PopClipRect();
      return;
    }
    default: lines(p); return;
  }
}

void Painter::containers(const PaintedBlock& p) {
  const std::vector<float>& x = p.layout.container_x;
  for (size_t i = 0; i < x.size(); ++i) {
    const Container& container = p.block.containers[i];
    const float left = p.origin.x + x[i];
    const float right = p.origin.x + (i + 1 < x.size() ? x[i + 1] : p.layout.indent);
    if (container.kind == Container::Kind::quote) {
      // The bar goes on over the gap to the block above.
      const float top = p.origin.y - (container.begins_here ? 0 : p.layout.gap);
      list_.AddRectFilled({left, top}, {left + 3 * stroke(), p.origin.y + p.layout.height},
                          look_.colours.quote_bar);
    } else if (container.begins_here && right > left) {
      marker(p, container, left, right);
    }
  }
}

void Painter::marker(const PaintedBlock& p, const Container& container, float left, float right) {
  const TextFont& font = look_.fonts[static_cast<size_t>(Face::body)];
  const float ascent = measure_.ascent(Face::body);
  const Line* first = p.layout.lines.empty() ? nullptr : &p.layout.lines.front();
  const float baseline = p.origin.y + (first == nullptr ? ascent : first->y + first->baseline);
  const float middle = baseline - ascent * 0.36f;
  const ImU32 colour = look_.colours.faint;
  if (container.task != Task::none) {
    const float size = std::floor(font.size * 0.72f);
    const ImVec2 min(std::floor(right - size - font.size * 0.4f), std::floor(middle - size / 2));
    const ImVec2 max(min.x + size, min.y + size);
    list_.AddRect(min, max, colour, 2 * look_.scale, 0, stroke());
    if (container.task == Task::done) {
      const ImVec2 points[] = {{min.x + size * 0.2f, min.y + size * 0.55f},
                               {min.x + size * 0.42f, min.y + size * 0.75f},
                               {min.x + size * 0.8f, min.y + size * 0.25f}};
      list_.AddPolyline(points, 3, look_.colours.text, 0, 1.5f * look_.scale);
    }
    return;
  }
  if (container.kind == Container::Kind::number) {
    const std::string number = std::to_string(container.number) + container.delimiter;
    float width = 0;
    for (const char c : number) width += measure_.advance(Face::body, static_cast<char32_t>(c));
    const float x = std::max(left, right - width - font.size * 0.4f);
    list_.AddText(font.font, font.size, {x, baseline - ascent}, colour, number.c_str());
    return;
  }
  const ImVec2 centre(right - font.size * 0.65f, middle);
  list_.AddCircleFilled(centre, std::max(1.5f, font.size * 0.14f), look_.colours.text);
}

void Painter::code_background(const PaintedBlock& p) {
  const BlockLayout& layout = p.layout;
  const float left = p.origin.x + layout.indent, right = left + layout.room;
  const float em = measure_.ascent(Face::body) + measure_.descent(Face::body);
  const float header = std::floor(look_.style.code_header * em);
  const float round = 6 * look_.scale;
  const ImVec2 min(left, p.origin.y), max(right, p.origin.y + layout.height);
  list_.AddRectFilled(min, max, look_.colours.code_background, round);
  list_.AddRectFilled(min, {right, min.y + header}, look_.colours.code_header, round,
                      ImDrawFlags_RoundCornersTop);
  const TextFont& font = look_.fonts[static_cast<size_t>(Face::body)];
  const float size = font.size * 0.85f;
  const std::string_view language =
      p.block.language.empty() ? std::string_view("text") : p.block.language;
  const ImVec4 clip(left, min.y, std::max(left, right - 6 * em), min.y + header);
  list_.AddText(font.font, size,
                {left + look_.style.code_padding * em, std::floor(min.y + (header - size) / 2)},
                look_.colours.faint, language.data(), language.data() + language.size(), 0, &clip);
}

void Painter::table_grid(const PaintedBlock& p) {
  const BlockLayout& layout = p.layout;
  if (layout.bands.empty()) return;
  const float shift = p.origin.x - p.scroll_x;
  const float left = shift + layout.column_edges.front(),
              right = shift + layout.column_edges.back();
  const Band& header = layout.bands.front();
  list_.AddRectFilled({left, p.origin.y}, {right, p.origin.y + header.height},
                      look_.colours.table_header);
  const float top = std::max(p.origin.y, clip_min_.y);
  const float bottom = std::min(p.origin.y + layout.height, clip_max_.y);
  for (const float edge : layout.column_edges) {
    const float x = std::floor(shift + edge);
    list_.AddRectFilled({x, top}, {x + stroke(), bottom}, look_.colours.line);
  }
  for (size_t i = first_visible(layout, clip_min_.y - p.origin.y); i < layout.bands.size(); ++i) {
    const float y = std::floor(p.origin.y + layout.bands[i].y);
    if (y > clip_max_.y) return;
    list_.AddRectFilled({left, y}, {right, y + stroke()}, look_.colours.line);
  }
  const float y = std::floor(p.origin.y + layout.height);
  list_.AddRectFilled({left, y - stroke()}, {right, y}, look_.colours.line);
}

void Painter::lines(const PaintedBlock& p) {
  const BlockLayout& layout = p.layout;
  const ImVec2 origin(p.origin.x - p.scroll_x, p.origin.y);
  const float top = clip_min_.y - origin.y, bottom = clip_max_.y - origin.y;
  const size_t first = first_visible(layout, top);
  for (size_t i = first; i < layout.bands.size() && layout.bands[i].y < bottom; ++i) {
    const Band& band = layout.bands[i];
    for (size_t n = band.first_line; n < band.first_line + band.lines; ++n) {
      const Line& each = layout.lines[n];
      if (each.y < bottom && each.y + each.height > top) line(p, each, origin);
    }
  }
  if (!layout.bands.empty()) return;
  for (size_t i = first; i < layout.lines.size() && layout.lines[i].y < bottom; ++i) {
    line(p, layout.lines[i], origin);
  }
}

void Painter::line(const PaintedBlock& p, const Line& line, ImVec2 origin) {
  ++lines_drawn_;
  if (p.selected.begin < p.selected.end || p.selected.goes_on) selection(p, line, origin);
  for (size_t i = line.first_run; i < line.first_run + line.runs; ++i) {
    run(p, line, p.layout.runs[i], origin);
  }
}

void Painter::selection(const PaintedBlock& p, const Line& line, ImVec2 origin) {
  const float top = origin.y + line.y, bottom = top + line.height;
  float right = origin.x + line.x;
  for (size_t i = line.first_run; i < line.first_run + line.runs; ++i) {
    const Run& run = p.layout.runs[i];
    right = std::max(right, origin.x + run.x + run.width);
    const size_t begin = std::max<size_t>(run.begin, p.selected.begin);
    const size_t end = std::min<size_t>(run.end, p.selected.end);
    if (begin >= end) continue;
    float x0 = x_in_run(p.block, line, run, begin, measure_);
    float x1 = x_in_run(p.block, line, run, end, measure_);
    if (x1 < x0) std::swap(x0, x1);
    list_.AddRectFilled({origin.x + x0, top}, {origin.x + x1, bottom}, look_.colours.selection);
  }
  // A selected line end is marked by a little more.
  const bool is_last = line.end == p.block.text.size();
  const bool has_end =
      p.selected.begin <= line.end &&
      (is_last ? p.selected.goes_on : p.selected.end >= line.end && line.end > p.selected.begin);
  if (has_end && p.block.kind != BlockKind::table) {
    const float more = look_.fonts[0].size * 0.3f;
    list_.AddRectFilled({right, top}, {right + more, bottom}, look_.colours.selection);
  }
}

ImU32 Painter::colour_of(const Run& run) const {
  if ((run.style & kLink) != 0) return look_.colours.link;
  if ((run.style & kImage) != 0) return look_.colours.faint;
  if (run.token == Token::plain) return look_.colours.text;
  return look_.colours.tokens[static_cast<size_t>(run.token)];
}

void Painter::run(const PaintedBlock& p, const Line& line, const Run& run, ImVec2 origin) {
  const TextFont& font = look_.fonts[static_cast<size_t>(run.face)];
  const float ascent = measure_.ascent(run.face), height = ascent + measure_.descent(run.face);
  const ImVec2 at(origin.x + run.x, std::floor(origin.y + line.y + line.baseline - ascent));
  if (at.x > clip_max_.x || at.x + run.width < clip_min_.x) return;
  if ((run.style & kCode) != 0 && p.block.kind != BlockKind::code) {
    const float side = 2 * look_.scale;
    list_.AddRectFilled({at.x - side, at.y}, {at.x + run.width + side, at.y + height},
                        look_.colours.inline_code, 3 * look_.scale);
  }
  const ImU32 colour = colour_of(run);
  const int before = list_.VtxBuffer.Size;
  if (run.is_simple) {
    const char* text = p.block.text.data();
    list_.AddText(font.font, font.size, at, colour, text + run.begin, text + run.end);
  } else {
    glyphs(p, line, run, at, colour);
  }
  if (run.face == Face::emphasis || run.face == Face::strong_emphasis) {
    slant(list_, before, at.y + ascent);
  }
  const auto rule = [&](float y) {
    list_.AddRectFilled({at.x, std::floor(y)}, {at.x + run.width, std::floor(y) + stroke()},
                        colour);
  };
  if ((run.style & kLink) != 0) rule(at.y + ascent + 1.5f * look_.scale);
  if ((run.style & kStrike) != 0) rule(at.y + ascent * 0.68f);
}

void Painter::glyphs(const PaintedBlock& p, const Line& line, const Run& run, ImVec2 at,
                     ImU32 colour) {
  float x = 0;
  for (size_t begin = run.begin; begin < run.end;) {
    const size_t end = cluster_end(p.block.text, begin, run.end);
    const float width =
        cluster_width(p.block.text, begin, end, run.face, run.x + x - line.x, measure_);
    const float left = run.right_to_left ? at.x + run.width - x - width : at.x + x;
    cluster(p.block, begin, end, run, {left, at.y}, width, colour);
    x += width;
    begin = end;
  }
}

void Painter::cluster(const Block& block, size_t begin, size_t end, const Run& run, ImVec2 at,
                      float width, ImU32 colour) {
  const TextFont& font = look_.fonts[static_cast<size_t>(run.face)];
  const float scale = font.size / font.font->FontSize;
  const char32_t first = char_at(block.text, begin).code;
  for (size_t i = begin; i < end;) {
    const bool is_first = i == begin;
    const Char c = char_at(block.text, i);
    char32_t code = joined_form(block.text, i);
    if (run.right_to_left) code = mirrored(code);
    i += c.length;
    if (glyph_of(font, code) == nullptr) code = letter_of_form(code);
    const ImFontGlyph* glyph = is_wide_blank(code) || code < 0x20 ? nullptr : glyph_of(font, code);
    const bool is_part = !is_first && is_emoji_part(first, c.code);
    const bool is_mark = !is_first && !is_part && columns_of(code) == 0;
    if (glyph != nullptr && is_mark) {
      // A font of one width draws a mark in a cell: that of its letter.
      font.font->RenderChar(&list_, font.size, {at.x - glyph->AdvanceX * scale, at.y}, colour,
                            static_cast<ImWchar>(glyph->Codepoint));
    } else if (glyph != nullptr && !is_part) {
      font.font->RenderChar(&list_, font.size, at, colour, static_cast<ImWchar>(glyph->Codepoint));
      at.x += glyph->AdvanceX * scale;
    } else if (is_first && width > 0 && code > 0x20 && !is_wide_blank(code)) {
      const float side = std::floor(width * 0.1f) + 1;
      list_.AddRect({at.x + side, at.y + font.size * 0.12f},
                    {at.x + width - side, at.y + font.size * 0.88f}, look_.colours.faint,
                    2 * look_.scale, 0, stroke());
    }
  }
}

}  // namespace infer::gui
