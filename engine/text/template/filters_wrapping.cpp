// Filters that lay text out: indent, truncate, wordwrap.
#include <algorithm>

#include "engine/text/template/characters.h"
#include "engine/text/template/interpreter.h"
#include "engine/text/template/lines.h"
#include "engine/text/unicode.h"

namespace infer::jinja {
namespace {

Result<Value> indent(Call& call) {
  if (!call.self.is(Kind::string)) return raise("indent needs a string");
  std::string by(4, ' ');
  if (call.has(0)) {
    if (call[0].is(Kind::string)) {
      by = call[0].text();
    } else {
      INFER_TRY(const int64_t width, call.integer(0));
      INFER_CHECK_R(call.in.check_size(width));
      by.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  const bool blank = call.truth(2);
  call.in.budget().work(call.text_bytes(), 1);
  const std::string with_end = call.self.text() + "\n";
  std::string out = call.truth(1) ? by : "";
  bool first = true;
  for (const std::string_view line : split_lines(call.in.budget(), with_end, false)) {
    if (!std::exchange(first, false)) {
      INFER_CHECK_R(call.in.append(out, "\n"));
      if (blank || !line.empty()) INFER_CHECK_R(call.in.append(out, by));
    }
    INFER_CHECK_R(call.in.append(out, line));
  }
  return call.in.string(std::move(out), call.self.markup());
}

Result<Value> truncate(Call& call) {
  if (!call.self.is(Kind::string)) return raise("truncate needs a string");
  INFER_TRY(const int64_t length, call.integer(0, 255));
  INFER_TRY(const std::string end, call.text(2, "..."));
  int64_t leeway = 5;
  if (call.has(3) && !call[3].is(Kind::none)) {
    INFER_TRY(leeway, call.integer(3));
  }
  const auto end_length = call.has(2) ? call[2].code_points() : int64_t{3};
  if (length < end_length) return raise("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) return raise("expected leeway >= 0, got {}", leeway);
  if (call.self.code_points() <= length || call.self.code_points() - length <= leeway) {
    return call.self;
  }
  call.in.budget().work(call.text_bytes(), Budget::kLoop);
  std::string kept = call.self.text().substr(0, byte_offset(call.self.text(), length - end_length));
  if (!call.truth(1)) kept = kept.substr(0, kept.rfind(' '));
  return call.in.string(kept + end, call.self.markup());
}

/// A text's words and the space between them; words may be divided after a hyphen between letters.
std::vector<std::u32string_view> chunks_of(Budget& budget, std::u32string_view text,
                                           bool break_on_hyphens) {
  const auto space = [](char32_t c) { return c == ' ' || (c >= 9 && c <= 13); };
  const auto letter = [](char32_t c) {
    return is_word(c) && (char_class(c) & kNumber) == 0 && c != '_';
  };
  const auto at = [&](size_t i) { return i < text.size() ? text[i] : U' '; };
  std::vector<std::u32string_view> chunks;
  size_t begin = 0;
  for (size_t i = 1; i <= text.size() && !budget.spent(); ++i) {
    bool ends = i == text.size() || space(text[i]) != space(text[i - 1]);
    if (!ends && break_on_hyphens && text[i - 1] == '-' && i - begin >= 3) {
      const bool before =
          letter(text[i - 2]) &&
          (letter(text[i - 3]) || (text[i - 3] == '-' && i - begin >= 4 && letter(text[i - 4])));
      const bool after =
          letter(text[i]) && (letter(at(i + 1)) || (at(i + 1) == '-' && letter(at(i + 2))));
      ends = before && after;
    }
    if (!ends) continue;
    budget.step();
    chunks.push_back(text.substr(begin, i - begin));
    begin = i;
  }
  std::ranges::reverse(chunks);
  return chunks;
}

/// Calls line(text) with lines of at most `width` characters, as Python's textwrap makes them, till
/// it fails.
template <typename Line>
Status wrap(Budget& budget, std::u32string_view text, size_t width, bool break_long,
            bool break_on_hyphens, Line&& line) {
  const auto blank = [](std::u32string_view chunk) { return is_space(chunk[0]); };
  // The last one is next.
  std::vector<std::u32string_view> chunks = chunks_of(budget, text, break_on_hyphens);
  bool first = true;
  while (!chunks.empty()) {
    budget.step();
    if (!first && blank(chunks.back())) chunks.pop_back();
    std::vector<std::u32string_view> parts;
    size_t used = 0;
    while (!chunks.empty() && used + chunks.back().size() <= width) {
      used += chunks.back().size();
      parts.push_back(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > width) {
      std::u32string_view& word = chunks.back();
      if (break_long) {
        size_t end = width - used;
        if (break_on_hyphens && word.size() > end && end > 0) {
          const size_t hyphen = word.rfind('-', end - 1);
          if (hyphen != std::u32string::npos &&
              word.substr(0, hyphen).find_first_not_of(U'-') != std::u32string::npos) {
            end = hyphen + 1;
          }
        }
        parts.push_back(word.substr(0, end));
        word.remove_prefix(end);
      } else if (parts.empty()) {
        parts.push_back(word);
        chunks.pop_back();
      }
    }
    if (!parts.empty() && (parts.back().empty() || blank(parts.back()))) parts.pop_back();
    if (parts.empty()) continue;
    first = false;
    std::u32string joined;
    for (const std::u32string_view part : parts) joined += part;
    INFER_CHECK(line(encode(joined)));
  }
  return {};
}

Result<Value> word_wrap(Call& call) {
  if (!call.self.is(Kind::string)) return raise("wordwrap needs a string");
  INFER_TRY(const int64_t width, call.integer(0, 79));
  if (width <= 0) return raise("invalid width {} (must be > 0)", width);
  std::string between = "\n";
  if (call.has(2) && !call[2].is(Kind::none)) {
    INFER_TRY(between, call.text(2));
  }
  Interpreter& in = call.in;
  std::string out;
  bool first_paragraph = true;
  for (const std::string_view paragraph : split_lines(in.budget(), call.self.text(), false)) {
    if (!std::exchange(first_paragraph, false)) INFER_CHECK_R(in.append(out, between));
    INFER_TRY(const std::u32string characters, in.characters(paragraph));
    bool first = true;
    INFER_CHECK_R(wrap(in.budget(), characters, static_cast<size_t>(width), call.truth(1, true),
                       call.truth(3, true), [&](std::string_view line) -> Status {
                         if (!std::exchange(first, false)) INFER_CHECK(in.append(out, between));
                         return in.append(out, line);
                       }));
  }
  return in.string(std::move(out));
}

constexpr Builtin kWrappingFilters[] = {
    {"indent", "width? first? blank?", indent},
    {"truncate", "length? killwords? end? leeway?", truncate},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", word_wrap},
};

}  // namespace

std::span<const Builtin> wrapping_filters() { return kWrappingFilters; }

}  // namespace infer::jinja
