// A place in a text, shared by the parsers of grammars and patterns.
#pragma once

#include <cstddef>
#include <string_view>

namespace infer {

/// The text without the mark that some editors write at the start of UTF-8.
inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

/// A base class. Looks and moves ahead byte by byte; the text outlives it.
class TextCursor {
 protected:
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool at_end() const { return pos_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[pos_]; }
  /// If the text continues with `c` or `s`, moves past it and returns true.
  bool take(char c) {
    if (at_end() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  bool take(std::string_view s) {
    if (!text_.substr(pos_).starts_with(s)) return false;
    pos_ += s.size();
    return true;
  }

  std::string_view text_;
  size_t pos_ = 0;
};

}  // namespace infer
