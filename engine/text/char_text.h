// A text as characters with their classes, as the pre-tokenizers see it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/text/unicode.h"

namespace infer {

/// Positions are character indices. A byte that is not UTF-8 is one character, U+FFFD. Takes 12
/// bytes a character.
class CharText {
 public:
  explicit CharText(std::string_view text) {
    codes_.reserve(text.size());
    classes_.reserve(text.size());
    offsets_.reserve(text.size() + 1);
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = decode_utf8(text, pos);
      codes_.push_back(c.code);
      classes_.push_back(char_class(c.code));
      offsets_.push_back(static_cast<uint32_t>(pos));
      pos += c.size;
    }
    offsets_.push_back(static_cast<uint32_t>(text.size()));
  }

  uint32_t size() const { return static_cast<uint32_t>(codes_.size()); }
  char32_t code(uint32_t i) const { return codes_[i]; }
  uint32_t classes(uint32_t i) const { return classes_[i]; }
  bool is(uint32_t i, uint32_t classes) const { return (classes_[i] & classes) != 0; }
  /// Byte offset of character i; of i = size(): the bytes of the text.
  uint32_t offset(uint32_t i) const { return offsets_[i]; }

 private:
  std::vector<char32_t> codes_;
  std::vector<uint32_t> classes_;
  std::vector<uint32_t> offsets_;
};

}  // namespace infer
