// Tokens to text while they are being generated: only whole UTF-8 characters come out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"

namespace infer {

struct StreamOptions {
  bool render_special = false;
  /// The first token begins a text (a space that the tokenizer itself puts there is taken off)
  /// rather than continues a prompt.
  bool at_start = false;
};

/// Whatever the tokens, everything that push() and finish() return is valid UTF-8: bytes that are
/// not become U+FFFD, one for each maximal part of a character, as soon as that is certain. At most
/// three bytes are held back. One thread; the tokenizer outlives it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, StreamOptions options = {})
      : joiner_(tokenizer, {options.render_special}, options.at_start) {}

  /// The text that is complete with this token; may be empty.
  std::string push(int32_t id);
  /// The end: a character that is cut off becomes U+FFFD. The decoder then continues a text.
  std::string finish();

 private:
  PieceJoiner joiner_;
  std::string pending_;
};

/// `bytes` with everything that is not UTF-8 replaced by U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace infer
