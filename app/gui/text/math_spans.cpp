#include "gui/text/math_spans.h"

#include <algorithm>

#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

constexpr size_t kMaxMath = 8192;
constexpr size_t kMaxSearch = 64;  ///< searches without an end before a paragraph is left alone

bool is_blank_or_break(char c) { return is_blank(c) || c == '\n'; }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<TextRange> scan() {
    if (is_fence(0)) skip_fence(0);
    while (at_ < text_.size()) {
      at_ = std::min(text_.find_first_of("$\\`\n", at_), text_.size());
      if (at_ < text_.size()) step();
    }
    return std::move(spans_);
  }

 private:
  void step() {
    if (at_ >= paragraph_end_) {
      paragraph_end_ = std::min(text_.find("\n\n", at_), text_.size());
      failures_ = 0;
    }
    switch (text_[at_]) {
      case '\n':
        ++at_;
        if (is_fence(at_)) skip_fence(at_);
        break;
      case '`': skip_code(); break;
      case '\\': backslash(); break;
      default: dollar(); break;
    }
  }

  /// Where a search that begins here gives up.
  size_t search_end() const {
    return failures_ < kMaxSearch ? std::min(paragraph_end_, at_ + kMaxMath) : at_;
  }

  size_t run_length(size_t at) const {
    const size_t end = text_.find_first_not_of(text_[at], at);
    return std::min(end, text_.size()) - at;
  }

  size_t fence_mark(size_t line) const {
    const size_t at = text_.find_first_not_of(" >", line);
    return at == std::string_view::npos ? text_.size() : at;
  }

  bool is_fence(size_t line) const {
    const size_t at = fence_mark(line);
    if (at >= text_.size() || (text_[at] != '`' && text_[at] != '~')) return false;
    const size_t info = at + run_length(at);
    // A fence of backticks has none in the rest of its line.
    return info - at >= 3 &&
           (text_[at] == '~' || text_.find_first_of("`\n", info) >= text_.find('\n', info));
  }

  void skip_fence(size_t line) {
    const size_t mark = fence_mark(line);
    const size_t length = run_length(mark);
    at_ = text_.find('\n', mark);
    while (at_ < text_.size()) {
      ++at_;
      const size_t end = fence_mark(at_);
      if (end < text_.size() && text_[end] == text_[mark] && run_length(end) >= length) {
        at_ = end + run_length(end);
        return;
      }
      at_ = text_.find('\n', at_);
    }
    at_ = text_.size();
  }

  void skip_code() {
    const size_t length = run_length(at_);
    const size_t limit = search_end();
    at_ += length;
    for (size_t at = at_; at < limit;) {
      at = text_.find('`', at);
      if (at >= limit) break;
      const size_t found = run_length(at);
      at += found;
      if (found == length) {
        at_ = at;
        return;
      }
    }
    ++failures_;
  }

  /// Adds the span that ends with `close`.
  bool add(size_t inner, std::string_view close) {
    const size_t end = text_.substr(0, search_end()).find(close, inner);
    if (end == std::string_view::npos || end == inner) {
      ++failures_;
      return false;
    }
    spans_.push_back({at_, end + close.size()});
    at_ = end + close.size();
    return true;
  }

  void backslash() {
    const size_t begin = at_;
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (next == '(' && add(begin + 2, "\\)")) return;
    if (next == '[' && add(begin + 2, "\\]")) return;
    at_ = std::min(begin + 2, text_.size());
    if (next == '\n') at_ = begin + 1;
  }

  void dollar() {
    const size_t begin = at_;
    const size_t length = run_length(at_);
    if (length == 2 && add(begin + 2, "$$")) return;
    if (length == 1 && inline_math(begin)) return;
    at_ = begin + length;
  }

  bool inline_math(size_t begin) {
    const size_t inner = begin + 1;
    const size_t limit = search_end();
    if (inner >= limit || is_blank_or_break(text_[inner])) return false;
    size_t end = inner;
    while (end < limit && text_[end] != '$' && text_[end] != '\n' && text_[end] != '`') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size() || text_[end] != '$' || is_blank_or_break(text_[end - 1]) ||
        (end + 1 < text_.size() && (is_digit(text_[end + 1]) || text_[end + 1] == '$'))) {
      ++failures_;
      return false;
    }
    const std::string_view formula = text_.substr(inner, end - inner);
    const bool amount = is_digit(formula[0]) && formula.find(' ') != std::string_view::npos &&
                        formula.find_first_of("\\^_=") == std::string_view::npos;
    if (amount) return false;
    at_ = end + 1;
    spans_.push_back({begin, at_});
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t paragraph_end_ = 0;
  size_t failures_ = 0;  ///< searches without an end in this paragraph
  std::vector<TextRange> spans_;
};

}  // namespace

std::vector<TextRange> math_spans(std::string_view text) { return Scanner(text).scan(); }

}  // namespace infer::gui
