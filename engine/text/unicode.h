// Characters: UTF-8 decoding that survives any bytes, and the classes tokenizers ask for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace infer {

inline constexpr char32_t kReplacement = 0xfffd;

/// One character of a text. Bytes that are not UTF-8 come one at a time with `valid` false and
/// `code` = kReplacement.
struct Utf8Char {
  char32_t code = kReplacement;
  uint8_t size = 1;  ///< bytes
  bool valid = false;
};

/// The character at `pos` < text.size(). Overlong forms, surrogates and values beyond U+10FFFF are
/// not valid.
Utf8Char decode_utf8(std::string_view text, size_t pos);

void append_utf8(std::string& out, char32_t code);

/// How much of the end of `text` may be the beginning of a character that is cut off: 0 to 3 bytes.
size_t incomplete_utf8_tail(std::string_view text);

/// Unicode general categories as a set of bits.
enum CharClass : uint32_t {
  kLu = 1u << 0,
  kLl = 1u << 1,
  kLt = 1u << 2,
  kLm = 1u << 3,
  kLo = 1u << 4,
  kMark = 1u << 5,  ///< Mn, Mc, Me
  kNd = 1u << 6,
  kNumberOther = 1u << 7,  ///< Nl, No
  kPunctuation = 1u << 8,
  kSymbol = 1u << 9,
  kControl = 1u << 10,     ///< Cc, Cf, Co, Cs
  kSpace = 1u << 11,       ///< White_Space, whatever the category
  kNonspacing = 1u << 12,  ///< Mn, in addition to kMark
  kLetter = kLu | kLl | kLt | kLm | kLo,
  kNumber = kNd | kNumberOther,
};

/// The classes of a character: one general category and perhaps kSpace. 0 for unassigned ones.
uint32_t char_class(char32_t code);

/// Bytes of what a reader takes for one character, at the beginning of a text that is not empty
/// (extended grapheme clusters of Unicode, annex 29).
size_t grapheme_size(std::string_view text);

/// Bytes of the white space, as Unicode has it, that `text` begins with.
size_t leading_white(std::string_view text);
/// Of that which it ends with.
size_t trailing_white(std::string_view text);

}  // namespace infer
