// GPT-2's alphabet, in which vocabularies of bytes spell their tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace infer {

/// By byte: printable Latin-1 stands for itself, the other bytes for U+0100 and following.
inline constexpr std::array<char32_t, 256> kByteToChar = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    table[b] = printable ? b : next++;
  }
  return table;
}();

/// Appends a byte's character in UTF-8: all are below U+0800.
inline void append_letter(std::string& out, uint8_t byte) {
  const char32_t code = kByteToChar[byte];
  if (code >= 0x80) out += static_cast<char>(0xc0 | code >> 6);
  out += static_cast<char>(code >= 0x80 ? 0x80 | (code & 0x3f) : code);
}

}  // namespace infer
