// Text from outside.
#pragma once

#include <string>
#include <string_view>

namespace infer::conversations {

bool is_valid_utf8(std::string_view text);

/// The text, with U+FFFD in place of bytes that are not UTF-8.
std::string valid_utf8(std::string_view text);

/// At most `bytes` bytes of the text, which end at the end of a character.
std::string_view shortened(std::string_view text, size_t bytes);

}  // namespace infer::conversations
