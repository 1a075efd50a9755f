#include "gui/text/guard.h"

#include <algorithm>
#include <cstdint>

#include "gui/text/document.h"
#include "gui/text/math_spans.h"
#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

constexpr size_t kMaxNesting = 24;               ///< containers that one line may open
constexpr size_t kMaxMarks = 1000;               ///< characters of inline markup in a paragraph
constexpr size_t kMaxMarkedWord = 2048;          ///< bytes of a word with inline markup
constexpr size_t kMaxParagraph = 64 * 1024;      ///< bytes of a paragraph with inline markup
constexpr size_t kMaxTables = 8;                 ///< in a paragraph
constexpr size_t kMaxMissingCells = 20'000;      ///< cells of a table that its rows leave out
constexpr size_t kMaxDefinitionBytes = 1 << 26;  ///< longest definition × possible uses

/// The characters that can be masked. Character i becomes code(i).
constexpr std::string_view kMaskable = "\\`*_[]<>&~|#+-=:@.)!$";

constexpr char code(size_t i) { return static_cast<char>(i < 8 ? 1 + i : 0x0E + i - 8); }
static_assert(code(kMaskable.size() - 1) < kMathBegin);

void mask(char& c) {
  const size_t i = kMaskable.find(c);
  if (i != std::string_view::npos) c = code(i);
}

void mask_all(std::string& text, size_t begin, size_t end, std::string_view which) {
  for (size_t i = begin; i < end; ++i) {
    if (which.find(text[i]) != std::string_view::npos) mask(text[i]);
  }
}

/// The end of a list marker or quote mark at `at`, or `at` if there is none.
size_t container_end(std::string_view line, size_t at) {
  const char c = line[at];
  if (c == '>') return at + 1;
  const auto ends = [&](size_t next) { return next == line.size() || is_blank(line[next]); };
  if (c == '-' || c == '+' || c == '*') return ends(at + 1) ? at + 1 : at;
  size_t next = at;
  while (next < line.size() && is_digit(line[next]) && next - at < 9) ++next;
  if (next > at && next < line.size() && (line[next] == '.' || line[next] == ')')) {
    return ends(next + 1) ? next + 1 : at;
  }
  return at;
}

/// A paragraph's worth of lines: [begin, end) has no blank line.
class Lines {
 public:
  Lines(std::string& text, size_t begin, size_t end) : text_(text), begin_(begin), end_(end) {}

  void limit() {
    for_each_line([this](size_t from, size_t to) { limit_nesting(from, to); });
    limit_table();
    if (end_ - begin_ > kMaxParagraph) {
      mask_all(text_, begin_ + kMaxParagraph, end_, kInline);
      mask_links(begin_ + kMaxParagraph, end_);
    }
    limit_marks();
    limit_words();
  }

 private:
  static constexpr std::string_view kInline = "\\`*_[]<&~@!";

  template <typename F>
  void for_each_line(const F& f) {
    for (size_t from = begin_; from < end_;) {
      const size_t to = std::min(text_.find('\n', from), end_);
      f(from, to);
      from = to + 1;
    }
  }

  void limit_nesting(size_t from, size_t to) {
    const std::string_view line = std::string_view(text_).substr(0, to);
    size_t depth = 0;
    for (size_t at = from; at < to;) {
      if (is_blank(line[at])) {
        ++at;
        continue;
      }
      const size_t end = container_end(line, at);
      if (end == at) return;
      if (++depth > kMaxNesting) {
        mask_all(text_, at, end, "><-+*.)");
        // The rest of a run of marks is masked too, so that it stays one word.
        for (at = end; at < to && text_[at] == '>'; ++at) mask(text_[at]);
        return;
      }
      at = end;
    }
  }

  /// Finds the row of dashes below a table's header. The parser reads the whole paragraph at each
  /// row that could be one, so there must be few.
  void limit_table() {
    size_t tables = 0;
    for_each_line([&](size_t from, size_t to) {
      const std::string_view line = std::string_view(text_).substr(from, to - from);
      if (line.find('-') == std::string_view::npos ||
          line.find_first_of("|:") == std::string_view::npos ||
          line.find_first_not_of("|:- \t>") != std::string_view::npos) {
        return;
      }
      if (tables == kMaxTables) return mask_all(text_, from, to, "-");
      const auto pipes = static_cast<size_t>(std::ranges::count(line, '|'));
      if (pipes > kMaxColumns + 1) return mask_all(text_, from, to, "-");
      ++tables;
      const std::string_view rest = std::string_view(text_).substr(to, end_ - to);
      const auto rows = static_cast<size_t>(std::ranges::count(rest, '\n'));
      const auto cells = static_cast<size_t>(std::ranges::count(rest, '|'));
      if (pipes * rows > kMaxMissingCells + 4 * cells) return mask_all(text_, from, to, "-");
      is_table_ = true;
    });
  }

  /// Marks are counted in what is certain to be one piece of inline text for the parser or more.
  void limit_marks() {
    const std::string_view first = std::string_view(text_).substr(0, end_);
    size_t start = begin_;
    while (start < end_ && is_blank(text_[start])) ++start;
    const bool is_list = start < end_ && container_end(first, start) > start;
    size_t count = 0;
    for_each_line([&](size_t from, size_t to) {
      size_t at = from;
      while (at < to && is_blank(text_[at])) ++at;
      const bool bullet = at < to && text_[at] != '>' && !is_digit(text_[at]) && at - from < 4;
      const bool item = at < to && container_end(first.substr(0, to), at) > at &&
                        text_[at] != '>' && (bullet || is_list);
      const bool row = is_table_ && first.substr(from, to - from).find('|') < to - from;
      if (item || row) count = 0;
      for (; at < to; ++at) {
        if (kInline.find(text_[at]) != std::string_view::npos && ++count > kMaxMarks) {
          mask(text_[at]);
        }
        if (count > kMaxMarks) mask_links(at, at + 1);
      }
    });
  }

  void limit_words() {
    for (size_t at = begin_; at < end_;) {
      size_t end = at;
      while (end < end_ && !is_blank(text_[end]) && text_[end] != '\n') ++end;
      if (end - at > kMaxMarkedWord) {
        mask_all(text_, at, end, kInline);
        mask_links(at, end);
      }
      at = end + 1;
    }
  }

  /// What the parser makes a link of without any markup: "www." and "://".
  void mask_links(size_t from, size_t to) { mask_all(text_, from, to, ":."); }

  std::string& text_;
  size_t begin_, end_;
  bool is_table_ = false;
};

/// The parser copies the address of a definition into each link that uses it.
void limit_definitions(std::string& text, size_t longest_run) {
  if (text.find("]:") == std::string::npos) return;
  const auto uses = static_cast<size_t>(std::ranges::count(text, '['));
  if (uses * longest_run <= kMaxDefinitionBytes) return;
  for (size_t at = text.find("]:"); at != std::string::npos; at = text.find("]:", at + 2)) {
    mask(text[at + 1]);
  }
}

/// LaTeX in paragraphs. Every character that could be markup is masked, also at starts of lines.
std::string with_math_marked(std::string text) {
  const std::vector<TextRange> spans = math_spans(text);
  if (spans.empty()) return text;
  std::string out;
  out.reserve(text.size() + 2 * spans.size());
  size_t at = 0;
  for (const TextRange& span : spans) {
    mask_all(text, span.begin, span.end, kMaskable);
    out.append(text, at, span.begin - at);
    out += kMathBegin;
    out.append(text, span.begin, span.end - span.begin);
    out += kMathEnd;
    at = span.end;
  }
  return out.append(text, at, std::string::npos);
}

}  // namespace

std::string guarded(std::string_view text) {
  std::string out(text);
  size_t longest = 0;
  for (size_t at = 0; at < out.size();) {
    // A run ends at a line that is empty but for blanks.
    size_t end = at;
    while (end < out.size()) {
      const size_t line = std::min(out.find('\n', end), out.size());
      if (out.find_first_not_of(" \t", end) >= line) break;
      end = std::min(line + 1, out.size());
    }
    if (end > at) {
      Lines(out, at, end).limit();
      longest = std::max(longest, end - at);
      at = end;
    } else {
      at = std::min(out.find('\n', at), out.size()) + 1;
    }
  }
  limit_definitions(out, longest);
  return with_math_marked(std::move(out));
}

std::string unguarded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == kMathBegin || c == kMathEnd) continue;
    const auto value = static_cast<unsigned char>(c);
    const size_t i = value < 0x09 ? value - 1u : value - 0x0Eu + 8u;
    const bool masked = value > 0 && (value < 0x09 || (value >= 0x0E && value < 0x1E));
    out += masked && i < kMaskable.size() ? kMaskable[i] : c;
  }
  return out;
}

}  // namespace infer::gui
