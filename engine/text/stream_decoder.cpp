#include "engine/text/stream_decoder.h"

#include <algorithm>

#include "engine/text/unicode.h"

namespace infer {

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, pos);
    if (c.valid) {
      out.append(bytes.substr(pos, c.size));
      pos += c.size;
      continue;
    }
    append_utf8(out, kReplacement);
    // The longest beginning of a character counts once (Unicode 15, section 3.9, U+FFFD
    // substitution of maximal subparts).
    size_t part = 1;
    for (size_t n = 2; n <= 3 && pos + n <= bytes.size(); ++n) {
      if (incomplete_utf8_tail(bytes.substr(pos, n)) == n) part = n;
    }
    pos += part;
  }
  return out;
}

std::string StreamDecoder::push(int32_t id) {
  pending_ += joiner_.next(id);
  const size_t tail = incomplete_utf8_tail(pending_);
  std::string text = to_valid_utf8(std::string_view(pending_).substr(0, pending_.size() - tail));
  pending_.erase(0, pending_.size() - tail);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = to_valid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace infer
