#include "engine/text/unicode.h"

#include <utf8proc.h>

#include <array>

namespace infer {
namespace {

constexpr bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

constexpr std::array<uint32_t, 32> kClassOfCategory = [] {
  std::array<uint32_t, 32> t{};
  t[UTF8PROC_CATEGORY_LU] = kLu;
  t[UTF8PROC_CATEGORY_LL] = kLl;
  t[UTF8PROC_CATEGORY_LT] = kLt;
  t[UTF8PROC_CATEGORY_LM] = kLm;
  t[UTF8PROC_CATEGORY_LO] = kLo;
  t[UTF8PROC_CATEGORY_MN] = kMark | kNonspacing;
  t[UTF8PROC_CATEGORY_MC] = t[UTF8PROC_CATEGORY_ME] = kMark;
  t[UTF8PROC_CATEGORY_ND] = kNd;
  t[UTF8PROC_CATEGORY_NL] = t[UTF8PROC_CATEGORY_NO] = kNumberOther;
  for (const int c :
       {UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE,
        UTF8PROC_CATEGORY_PI, UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO}) {
    t[static_cast<size_t>(c)] = kPunctuation;
  }
  for (const int c :
       {UTF8PROC_CATEGORY_SM, UTF8PROC_CATEGORY_SC, UTF8PROC_CATEGORY_SK, UTF8PROC_CATEGORY_SO}) {
    t[static_cast<size_t>(c)] = kSymbol;
  }
  for (const int c :
       {UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CS}) {
    t[static_cast<size_t>(c)] = kControl;
  }
  return t;
}();

}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[pos + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t left = text.size() - pos;
  const auto tail = [&](size_t i) { return i < left && (byte(i) & 0xc0) == 0x80; };
  if (lead >= 0xc2 && lead <= 0xdf && tail(1)) {
    return {static_cast<char32_t>((lead & 0x1f) << 6 | (byte(1) & 0x3f)), 2, true};
  }
  if ((lead & 0xf0) == 0xe0 && tail(1) && tail(2)) {
    const auto code =
        static_cast<char32_t>((lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f));
    if (code >= 0x800 && (code < 0xd800 || code > 0xdfff)) return {code, 3, true};
  }
  if (lead >= 0xf0 && lead <= 0xf4 && tail(1) && tail(2) && tail(3)) {
    const auto code = static_cast<char32_t>((lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 |
                                            (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f));
    if (code >= 0x10000 && code <= 0x10ffff) return {code, 4, true};
  }
  return {};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

size_t incomplete_utf8_tail(std::string_view text) {
  const size_t most = text.size() < 3 ? text.size() : 3;
  for (size_t n = 1; n <= most; ++n) {
    const auto lead = static_cast<uint8_t>(text[text.size() - n]);
    if ((lead & 0xc0) == 0x80) continue;
    const size_t size = lead >= 0xf0 && lead <= 0xf4   ? 4
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xc2 && lead <= 0xdf ? 2
                                                       : 1;
    if (size <= n) return 0;
    if (n == 1) return 1;
    // The second byte already tells overlong forms, surrogates and values that are too large.
    const auto second = static_cast<uint8_t>(text[text.size() - n + 1]);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return 0;
    }
    return n;
  }
  return 0;
}

uint32_t char_class(char32_t code) {
  const auto category =
      static_cast<size_t>(utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->category);
  return kClassOfCategory[category] | (is_white_space(code) ? uint32_t{kSpace} : 0u);
}

size_t grapheme_size(std::string_view text) {
  Utf8Char before = decode_utf8(text, 0);
  size_t size = before.size;
  utf8proc_int32_t state = 0;
  while (size < text.size()) {
    const Utf8Char c = decode_utf8(text, size);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.code),
                                         static_cast<utf8proc_int32_t>(c.code), &state)) {
      break;
    }
    size += c.size;
    before = c;
  }
  return size;
}

size_t leading_white(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const Utf8Char c = decode_utf8(text, size);
    if (!c.valid || (char_class(c.code) & kSpace) == 0) break;
    size += c.size;
  }
  return size;
}

size_t trailing_white(std::string_view text) {
  constexpr size_t kLongest = 3;  // of a white character
  size_t size = 0;
  for (size_t bytes = 1; bytes <= std::min(kLongest, text.size() - size);) {
    const size_t at = text.size() - size - bytes;
    const Utf8Char c = decode_utf8(text, at);
    if (c.valid && c.size == bytes && (char_class(c.code) & kSpace) != 0) {
      size += bytes;
      bytes = 1;
    } else {
      ++bytes;
    }
  }
  return size;
}

}  // namespace infer
