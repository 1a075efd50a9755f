#include "conversations/utf8.h"

#include <utf8proc.h>

#include <algorithm>

namespace infer::conversations {
namespace {

/// Bytes of the character that the text begins with; 0 if it begins with none.
size_t character(std::string_view text) {
  utf8proc_int32_t code = 0;
  const auto size = static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size(), 4));
  const utf8proc_ssize_t used =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), size, &code);
  return used > 0 ? static_cast<size_t>(used) : 0;
}

/// Bytes of valid characters that the text begins with.
size_t valid_size(std::string_view text) {
  size_t size = 0;
  for (;;) {
    while (size < text.size() && static_cast<unsigned char>(text[size]) < 0x80) ++size;
    if (size == text.size()) break;
    const size_t next = character(text.substr(size));
    if (next == 0) break;
    size += next;
  }
  return size;
}

}  // namespace

bool is_valid_utf8(std::string_view text) { return valid_size(text) == text.size(); }

std::string valid_utf8(std::string_view text) {
  std::string valid;
  for (;;) {
    const size_t size = valid_size(text);
    valid += text.substr(0, size);
    if (size == text.size()) return valid;
    valid += "\xEF\xBF\xBD";
    text.remove_prefix(size + 1);
  }
}

std::string_view shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace infer::conversations
