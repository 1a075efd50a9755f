#include "gui/text/highlight.h"

#include <algorithm>
#include <string>

#include "gui/text/utf8.h"

namespace infer::gui {

namespace {

constexpr size_t kMaxKeyword = 64;  ///< a longer word is no keyword

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string lowered(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lower;
}

std::vector<std::string_view> sorted_words(std::string_view words) {
  std::vector<std::string_view> all;
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    if (!word.empty()) all.push_back(word);
    words.remove_prefix(std::min(word.size() + 1, words.size()));
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

class LineReader {
 public:
  LineReader(const Highlighter& highlighter, std::string_view line, HighlightState state,
             std::vector<TokenSpan>& spans)
      : highlighter_(highlighter),
        language_(*highlighter.language_),
        line_(line),
        state_(state),
        spans_(spans) {}

  HighlightState read() {
    if (has(kChanges)) return read_change();
    if (has(kProse) && state_.open == HighlightState::Open::nothing) read_prose_start();
    if (has(kHashLines) && state_.open == HighlightState::Open::nothing && starts_with_hash()) {
      at_ = line_.find_first_not_of(" \t");
      put(Token::plain, 0, at_);
      size_t end = at_ + 1;
      while (end < line_.size() && is_blank(line_[end])) ++end;
      while (end < line_.size() && is_letter(line_[end])) ++end;
      put(Token::meta, at_, end);
    }
    while (at_ < line_.size()) step();
    return state_;
  }

 private:
  using Open = HighlightState::Open;

  bool has(uint32_t trait) const { return (language_.traits & trait) != 0; }
  bool starts(std::string_view mark) const {
    return !mark.empty() && line_.substr(at_).starts_with(mark);
  }

  bool starts_with_hash() const {
    const size_t first = line_.find_first_not_of(" \t");
    return first != std::string_view::npos && line_[first] == '#';
  }

  void put(Token token, size_t begin, size_t end) {
    at_ = end;
    if (begin == end) return;
    if (!spans_.empty() && spans_.back().token == token && spans_.back().end == begin) {
      spans_.back().end = static_cast<uint32_t>(end);
    } else {
      spans_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), token});
    }
  }

  void step() {
    switch (state_.open) {
      case Open::comment: return read_comment(at_);
      case Open::triple:
      case Open::backtick: return read_long_string(at_);
      case Open::tag: return read_tag();
      default: break;
    }
    const char c = line_[at_];
    if (starts(language_.comment_begin)) {
      state_ = {Open::comment, 1, 0};
      return read_comment(at_, at_ + language_.comment_begin.size());
    }
    if (starts_line_comment()) return put(Token::comment, at_, line_.size());
    if (has(kTags)) return read_markup();
    if (language_.quotes.find(c) != std::string_view::npos) return read_quote();
    if (is_digit(c)) return read_number();
    if (c == '$' && has(kDollarWords)) return read_dollar();
    if (c == '@' && has(kAtWords)) return put(Token::meta, at_, word_end(at_ + 1));
    if (is_letter(c)) return read_word();
    put(Token::plain, at_, at_ + 1);
  }

  bool starts_line_comment() const {
    for (std::string_view marks = language_.line_comments; !marks.empty();) {
      const std::string_view mark = marks.substr(0, marks.find(' '));
      marks.remove_prefix(std::min(mark.size() + 1, marks.size()));
      if (!line_.substr(at_).starts_with(mark)) continue;
      if (has(kMarkAfterBlank) && at_ > 0 && !is_blank(line_[at_ - 1])) continue;
      // A mark of letters ("rem") is a word.
      if (is_letter(mark[0]) && line_.find_first_not_of(" \t") != at_) continue;
      return true;
    }
    return false;
  }

  void read_comment(size_t begin) { read_comment(begin, begin); }
  void read_comment(size_t begin, size_t from) {
    const std::string_view close = language_.comment_end, open = language_.comment_begin;
    for (size_t i = from; i < line_.size(); ++i) {
      const std::string_view rest = line_.substr(i);
      if (rest.starts_with(close)) {
        i += close.size() - 1;
        if (--state_.depth == 0) {
          state_ = {};
          return put(Token::comment, begin, i + 1);
        }
      } else if (has(kNestedComments) && state_.depth < 255 && rest.starts_with(open)) {
        ++state_.depth;
        i += open.size() - 1;
      }
    }
    put(Token::comment, begin, line_.size());
  }

  /// A string that may hold several lines; `from` is behind its first mark.
  void read_long_string(size_t begin) { read_long_string(begin, begin); }
  void read_long_string(size_t begin, size_t from) {
    const std::string close(state_.open == Open::triple ? 3u : 1u, state_.quote);
    for (size_t i = from; i < line_.size(); ++i) {
      if (line_[i] == '\\') {
        ++i;
      } else if (line_.substr(i).starts_with(close)) {
        state_ = {};
        return put(Token::string, begin, i + close.size());
      }
    }
    put(Token::string, begin, line_.size());
  }

  void read_quote() {
    const char quote = line_[at_];
    if (has(kTripleQuotes) && starts(std::string(3, quote))) {
      state_ = {Open::triple, 0, quote};
      return read_long_string(at_, at_ + 3);
    }
    if (has(kLongBackticks) && quote == '`') {
      state_ = {Open::backtick, 0, quote};
      return read_long_string(at_, at_ + 1);
    }
    const bool one_char = has(kQuotedChars) && quote == '\'';
    // '\u{10FFFF}' is the longest character.
    const size_t limit = one_char ? std::min(line_.size(), at_ + 13) : line_.size();
    for (size_t i = at_ + 1; i < limit; ++i) {
      if (line_[i] == '\\' && !has(kDoubledQuotes)) {
        ++i;
      } else if (line_[i] == quote) {
        const bool is_char = i - at_ <= 5 || line_[at_ + 1] == '\\';
        if (one_char && !is_char) break;
        return put_string(at_, i + 1);
      }
    }
    if (one_char) return put(Token::meta, at_, word_end(at_ + 1));
    put_string(at_, line_.size());
  }

  void put_string(size_t begin, size_t end) {
    put(has(kKeys) && is_key(end) ? Token::key : Token::string, begin, end);
  }

  /// Whether ':' or '=' comes after `end`.
  bool is_key(size_t end) const {
    while (end < line_.size() && is_blank(line_[end])) ++end;
    return end < line_.size() && (line_[end] == ':' || line_[end] == '=');
  }

  void read_number() {
    size_t end = at_;
    while (end < line_.size() &&
           (is_digit(line_[end]) || is_letter(line_[end]) || line_[end] == '.' ||
            ((line_[end] == '+' || line_[end] == '-') && (line_[end - 1] | 32) == 'e' &&
             line_[at_ + 1] != 'x'))) {
      ++end;
    }
    put(Token::number, at_, end);
  }

  void read_dollar() {
    size_t end = at_ + 1;
    if (end < line_.size() && line_[end] == '{') {
      end = std::min(line_.find('}', end), line_.size() - 1) + 1;
    } else if (end < line_.size() && (is_letter(line_[end]) || is_digit(line_[end]))) {
      end = plain_word_end(end);
    } else if (end < line_.size() && line_[end] != '(' && !is_blank(line_[end])) {
      ++end;
    }
    put(Token::meta, at_, end);
  }

  size_t plain_word_end(size_t at) const {
    while (at < line_.size() && (is_letter(line_[at]) || is_digit(line_[at]))) ++at;
    return at;
  }

  size_t word_end(size_t at) const {
    while (at < line_.size() && (is_letter(line_[at]) || is_digit(line_[at]) ||
                                 (has(kDashedWords) && line_[at] == '-'))) {
      ++at;
    }
    return at;
  }

  static bool contains(const std::vector<std::string_view>& words, std::string_view word) {
    return std::ranges::binary_search(words, word);
  }

  void read_word() {
    const size_t end = word_end(at_);
    const std::string_view word = line_.substr(at_, end - at_);
    Token token = Token::plain;
    if (word.size() <= kMaxKeyword) {
      const std::string lower = has(kIgnoresCase) ? lowered(word) : std::string{};
      const auto known = [&](const std::vector<std::string_view>& words) {
        return contains(words, word) || (has(kIgnoresCase) && contains(words, lower));
      };
      if (known(highlighter_.keywords_)) {
        token = Token::keyword;
      } else if (known(highlighter_.types_)) {
        token = Token::type;
      } else if (has(kKeys) && is_key(end)) {
        token = Token::key;
      } else if (end < line_.size() && line_[end] == '(') {
        token = Token::function;
      }
    }
    put(token, at_, end);
  }

  void read_markup() {
    if (line_[at_] != '<') {
      const size_t end = std::min(line_.find_first_of("<&", at_ + 1), line_.size());
      return put(Token::plain, at_, end);
    }
    size_t end = at_ + 1;
    while (end < line_.size() && (line_[end] == '/' || line_[end] == '!' || line_[end] == '?'))
      ++end;
    end = word_end(end);
    state_ = {Open::tag, 0, 0};
    put(Token::keyword, at_, end);
  }

  /// Within <…>: names of attributes and their values.
  void read_tag() {
    const char c = line_[at_];
    if (c == '>') {
      state_ = {};
      return put(Token::keyword, at_, at_ + 1);
    }
    if (c == '"' || c == '\'') return read_quote();
    if (is_letter(c)) return put(Token::key, at_, word_end(at_));
    put(c == '/' || c == '?' ? Token::keyword : Token::plain, at_, at_ + 1);
  }

  HighlightState read_change() {
    const char first = line_.empty() ? ' ' : line_[0];
    Token token = Token::plain;
    if (line_.starts_with("@@") || line_.starts_with("+++") || line_.starts_with("---") ||
        line_.starts_with("diff ") || line_.starts_with("index ")) {
      token = Token::meta;
    } else if (first == '+' || first == '>') {
      token = Token::added;
    } else if (first == '-' || first == '<') {
      token = Token::removed;
    }
    put(token, 0, line_.size());
    return state_;
  }

  /// Headings, list marks, quotes and fences of Markdown.
  void read_prose_start() {
    const size_t first = std::min(line_.find_first_not_of(" \t"), line_.size());
    put(Token::plain, 0, first);
    const std::string_view rest = line_.substr(first);
    if (rest.starts_with("#")) {
      put(Token::keyword, first, line_.size());
    } else if (rest.starts_with("```") || rest.starts_with("~~~")) {
      put(Token::meta, first, line_.size());
    } else if (rest.starts_with("> ")) {
      put(Token::comment, first, line_.size());
    } else if (rest.starts_with("- ") || rest.starts_with("* ") || rest.starts_with("+ ")) {
      put(Token::keyword, first, first + 1);
    }
  }

  const Highlighter& highlighter_;
  const Language& language_;
  std::string_view line_;
  HighlightState state_;
  std::vector<TokenSpan>& spans_;
  size_t at_ = 0;
};

Highlighter::Highlighter(std::string_view language_name) : language_(find_language(language_name)) {
  if (language_ == nullptr) return;
  keywords_ = sorted_words(language_->keywords);
  types_ = sorted_words(language_->types);
}

HighlightState Highlighter::line(std::string_view line, HighlightState state,
                                 std::vector<TokenSpan>& spans) const {
  spans.clear();
  if (language_ == nullptr) {
    if (!line.empty()) spans.push_back({0, static_cast<uint32_t>(line.size()), Token::plain});
    return {};
  }
  return LineReader(*this, line, state, spans).read();
}

}  // namespace infer::gui
