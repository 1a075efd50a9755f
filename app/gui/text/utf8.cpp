#include "gui/text/utf8.h"

#include <utf8proc.h>

#include <algorithm>

namespace infer::gui {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

enum class WordClass { letter, blank, other };

WordClass word_class(char32_t code) {
  if (code == ' ' || code == '\t' || code == 0xA0 || code == 0x3000) return WordClass::blank;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_PC: return WordClass::letter;
    default: return WordClass::other;
  }
}

}  // namespace

void append_utf8(std::string& out, char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

std::string_view first_bytes(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && is_continuation(text[most])) --most;
  return text.substr(0, most);
}

size_t cluster_end(std::string_view text, size_t at, size_t end) {
  if (at + 1 >= end) return end;
  if (is_ascii(text[at]) && is_ascii(text[at + 1])) return at + 1;
  end = std::min(end, text.size());
  const size_t most = std::min(end, at + kMaxClusterBytes);
  Char previous = char_at(text, at);
  size_t next = std::min(at + previous.length, end);
  utf8proc_int32_t state = 0;
  while (next < most) {
    const Char c = char_at(text, next);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous.code),
                                         static_cast<utf8proc_int32_t>(c.code), &state)) {
      break;
    }
    next = std::min(next + c.length, end);
    previous = c;
  }
  return next;
}

size_t cluster_begin(std::string_view text, size_t at) {
  if (at == 0) return 0;
  if (at >= 2 && is_ascii(text[at - 1]) && is_ascii(text[at - 2])) return at - 1;
  // A break is certain before an ASCII character: walk on from the last one that is near.
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 2 * kMaxClusterBytes && !is_ascii(text[begin])) --begin;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  for (size_t next = begin; next < at; next = cluster_end(text, next, text.size())) begin = next;
  return begin;
}

int columns_of(char32_t code) {
  if (code < 0x7F) return code < 0x20 ? 0 : 1;
  return utf8proc_charwidth(static_cast<utf8proc_int32_t>(code));
}

bool is_invisible(char32_t code) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->ignorable != 0;
}

bool is_emoji(char32_t code) {
  if (code >= 0x1F000 && code < 0x20000) return true;
  // In these blocks Unicode calls emoji wide, and nothing else but two brackets.
  return code >= 0x2300 && code <= 0x2BFF && code != 0x2329 && code != 0x232A &&
         columns_of(code) == 2;
}

bool is_emoji_part(char32_t first, char32_t code) {
  const bool is_flag_letter = code >= 0x1F1E6 && code <= 0x1F1FF;
  return !is_flag_letter && (code >= 0x1F000 || (first >= 0x1F000 && first < 0x20000));
}

TextRange word_at(std::string_view text, size_t at) {
  if (text.empty()) return {};
  at = std::min(at, text.size() - 1);
  while (at > 0 && is_continuation(text[at])) --at;
  const WordClass kind = word_class(char_at(text, at).code);
  size_t begin = at, end = cluster_end(text, at, text.size());
  if (kind == WordClass::other || text[at] == '\n') return {at, end};
  while (begin > 0) {
    const size_t before = cluster_begin(text, begin);
    if (text[before] == '\n' || word_class(char_at(text, before).code) != kind) break;
    begin = before;
  }
  while (end < text.size() && text[end] != '\n' && word_class(char_at(text, end).code) == kind) {
    end = cluster_end(text, end, text.size());
  }
  return {begin, end};
}

}  // namespace infer::gui
