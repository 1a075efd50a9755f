// Walking over valid UTF-8: characters, and clusters (what a reader counts as one character, UAX
// 29).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace infer::gui {

struct Char {
  char32_t code = 0;
  size_t length = 1;  ///< bytes
};

/// The character at `at`. `text` is valid UTF-8 and `at` is where a character begins.
inline Char char_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  const size_t left = text.size() - at;
  if (lead < 0xC0 || left < 2) return {lead, 1};
  const auto next = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  if (lead < 0xE0) return {(lead & 0x1Fu) << 6 | next(1), 2};
  if (left < 3) return {0xFFFD, left};
  if (lead < 0xF0) return {(lead & 0x0Fu) << 12 | next(1) << 6 | next(2), 3};
  if (left < 4) return {0xFFFD, left};
  return {(lead & 0x07u) << 18 | next(1) << 12 | next(2) << 6 | next(3), 4};
}

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, char32_t code);

/// The begin of a text, as long as `most` bytes allow, without half a character at its end.
std::string_view first_bytes(std::string_view text, size_t most);

/// Bytes that a cluster has at most. A longer one is cut: a hostile text joins a whole message into
/// one cluster.
constexpr size_t kMaxClusterBytes = 96;

/// Where the cluster that begins at `at` ends; at most `end`. `at` < `end`.
size_t cluster_end(std::string_view text, size_t at, size_t end);
/// Where the cluster that ends at `at` begins. 0 if `at` is 0.
size_t cluster_begin(std::string_view text, size_t at);

/// Columns that a terminal gives the character: 0 (marks, joiners), 1 or 2 (CJK, emoji).
int columns_of(char32_t code);

/// Whether the character has no picture of its own, such as a joiner or a variation selector.
bool is_invisible(char32_t code);

/// Whether readers expect a picture in colours.
bool is_emoji(char32_t code);
/// Whether `code`, which follows in a cluster that begins with `first`, has no picture of its own
/// in it: an emoji made of several characters looks like its first one, a flag like its letters.
bool is_emoji_part(char32_t first, char32_t code);

/// The word around byte `at`: letters and digits, or blanks, or else one cluster.
struct TextRange {
  size_t begin = 0, end = 0;
};
TextRange word_at(std::string_view text, size_t at);

}  // namespace infer::gui
