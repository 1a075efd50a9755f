#include "gui/text/wrap.h"

#include <algorithm>
#include <cmath>

#include "gui/text/bidi.h"
#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

bool is_word(char c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Marks that must not begin a line, and those that must not end one.
bool closes(char32_t code) {
  constexpr std::u32string_view kMarks = U",.;:!?)]}%、。，．：；？！）］｝」』】〉》〕ー…’”»·";
  return kMarks.find(code) != std::u32string_view::npos;
}
bool opens(char32_t code) {
  constexpr std::u32string_view kMarks = U"([{（［｛「『【〈《〔‘“«";
  return kMarks.find(code) != std::u32string_view::npos;
}

}  // namespace

Face face_of(uint8_t style, Face base) {
  if ((style & (kCode | kMath)) != 0) return Face::code;
  if (base != Face::body) return base;
  const bool emphasis = (style & (kEmphasis | kImage)) != 0;
  if ((style & kStrong) != 0) return emphasis ? Face::strong_emphasis : Face::strong;
  return emphasis ? Face::emphasis : Face::body;
}

Wrapper::Wrapper(const Block& block, Face base, float line_spacing, const Measure& measure,
                 BlockLayout& layout)
    : block_(block),
      base_(base),
      line_spacing_(line_spacing),
      measure_(measure),
      layout_(layout),
      has_right_to_left_(may_be_right_to_left(block.text)) {}

/// The span that holds `offset`. `hint` is where the last search ended, or null.
const Span* Wrapper::span_at(size_t offset, const Span* hint) const {
  const Span* const first = block_.spans.data();
  const Span* const last = first + block_.spans.size();
  if (hint != nullptr && hint < last && hint->begin <= offset) {
    while (hint < last && hint->end <= offset) ++hint;
    return hint < last ? hint : nullptr;
  }
  const Span* found =
      std::upper_bound(first, last, offset, [](size_t at, const Span& s) { return at < s.end; });
  return found < last ? found : nullptr;
}

bool Wrapper::may_break(size_t at, size_t next, size_t end) const {
  const std::string& text = block_.text;
  if (next >= end) return false;
  const char c = text[at], follows = text[next];
  if (is_blank(c)) return !is_blank(follows);
  if (is_blank(follows)) return false;
  const bool is_ascii = static_cast<unsigned char>(c) < 0x80;
  if (is_ascii && static_cast<unsigned char>(follows) < 0x80) {
    if (c == '-') return at > 0 && is_word(text[at - 1]) && is_word(follows);
    return (c == '/' || c == '?' || c == '&' || c == '=' || c == '_') && is_word(follows);
  }
  const char32_t code = char_at(text, at).code, after = char_at(text, next).code;
  if (code == 0x200B) return true;
  if (code == 0xA0 || after == 0xA0 || closes(after) || opens(code)) return false;
  return columns_of(code) == 2 || columns_of(after) == 2;
}

float Wrapper::wrap(size_t begin, size_t end, float x, float width, float y, Align align) {
  const std::string& text = block_.text;
  const bool right_to_left = has_right_to_left_ && runs_right_to_left(std::string_view(text).substr(
                                                       begin, std::min<size_t>(end - begin, 1024)));
  Room room{x, width, y, align, right_to_left};
  size_t line = begin, last_break = kNone;
  float used = 0;
  const Span* span = nullptr;
  for (size_t at = begin; at < end;) {
    if (text[at] == '\n') {
      add_line(line, ++at, room);
      line = at;
      used = 0;
      last_break = kNone;
      continue;
    }
    const size_t next = cluster_end(text, at, end);
    span = span_at(at, span);
    const Face face = face_of(span == nullptr ? uint8_t{0} : span->style, base_);
    const float advance = cluster_width(text, at, next, face, used, measure_);
    if (!is_blank(text[at]) && used + advance > width && at > line) {
      // The part behind the break is measured again; it is at most as long as the line.
      at = last_break == kNone ? at : last_break;
      add_line(line, at, room);
      line = at;
      used = 0;
      last_break = kNone;
      continue;
    }
    used += advance;
    if (may_break(at, next, end)) last_break = next;
    at = next;
  }
  if (line < end || begin == end || text[end - 1] == '\n') add_line(line, end, room);
  return room.y;
}

Wrapper::Widths Wrapper::widths(size_t begin, size_t end) const {
  Widths widths;
  float line = 0, word = 0;
  const Span* span = nullptr;
  for (size_t at = begin; at < end;) {
    const size_t next = cluster_end(block_.text, at, end);
    span = span_at(at, span);
    const Face face = face_of(span == nullptr ? uint8_t{0} : span->style, base_);
    const float advance = cluster_width(block_.text, at, next, face, line, measure_);
    line += advance;
    word = is_blank(block_.text[at]) ? 0 : word + advance;
    widths.word = std::max(widths.word, word);
    if (may_break(at, next, end)) word = 0;
    at = next;
  }
  widths.line = line;
  return widths;
}

void Wrapper::add_line(size_t begin, size_t end, Room& room) {
  size_t visible = end;
  while (visible > begin &&
         (is_blank(block_.text[visible - 1]) || block_.text[visible - 1] == '\n')) {
    --visible;
  }
  Line line;
  line.begin = static_cast<uint32_t>(begin);
  line.end = static_cast<uint32_t>(end);
  line.y = room.y;
  line.first_run = static_cast<uint32_t>(layout_.runs.size());
  float x = room.x;
  if (has_right_to_left_) {
    for (const DirectionRun& run : visual_runs(block_.text, begin, visible, room.right_to_left)) {
      x = add_runs(run.begin, run.end, run.right_to_left, x, room.x);
    }
  } else {
    x = add_runs(begin, visible, false, x, room.x);
  }
  line.runs = static_cast<uint32_t>(layout_.runs.size()) - line.first_run;

  const float spare = std::max(0.0f, room.x + room.width - x);
  float shift = 0;
  if (room.align == Align::right || (room.align == Align::left && room.right_to_left)) {
    shift = spare;
  } else if (room.align == Align::centre) {
    shift = std::floor(spare / 2);
  }
  float ascent = measure_.ascent(base_), descent = measure_.descent(base_);
  for (size_t i = line.first_run; i < layout_.runs.size(); ++i) {
    Run& run = layout_.runs[i];
    run.x += shift;
    ascent = std::max(ascent, measure_.ascent(run.face));
    descent = std::max(descent, measure_.descent(run.face));
  }
  line.x = room.x + shift;
  line.height = std::ceil((ascent + descent) * line_spacing_);
  line.baseline = ascent + std::floor((line.height - ascent - descent) / 2);
  layout_.width = std::max(layout_.width, x + shift);
  room.y += line.height;
  layout_.lines.push_back(line);
}

/// Adds the spans of [begin, end), which run in one direction. Returns the x behind them.
float Wrapper::add_runs(size_t begin, size_t end, bool right_to_left, float x, float line_x) {
  const size_t first = layout_.runs.size();
  const Span* span = nullptr;
  for (size_t at = begin; at < end;) {
    span = span_at(at, span);
    Run run;
    run.begin = static_cast<uint32_t>(at);
    run.end = static_cast<uint32_t>(span == nullptr ? end : std::min<size_t>(end, span->end));
    run.style = span == nullptr ? uint8_t{0} : span->style;
    run.link = span == nullptr ? -1 : span->link;
    run.face = face_of(run.style, base_);
    run.right_to_left = right_to_left;
    run.is_simple = !right_to_left;
    float width = 0;
    while (at < run.end) {
      const size_t next = cluster_end(block_.text, at, run.end);
      const char c = block_.text[at];
      if (next != at + 1 || c < 0x20 || c == 0x7F) run.is_simple = false;
      width += cluster_width(block_.text, at, next, run.face, x + width - line_x, measure_);
      at = next;
    }
    run.x = x;
    run.width = width;
    x += width;
    layout_.runs.push_back(run);
  }
  if (right_to_left) {
    std::reverse(layout_.runs.begin() + static_cast<ptrdiff_t>(first), layout_.runs.end());
    float left = first < layout_.runs.size() ? layout_.runs.back().x : x;
    for (size_t i = first; i < layout_.runs.size(); ++i) {
      layout_.runs[i].x = left;
      left += layout_.runs[i].width;
    }
  }
  return x;
}

}  // namespace infer::gui
