#include "engine/text/text_encoder.h"

#include <algorithm>
#include <cmath>

namespace infer {

Status check_scores(const TokenizerSpec& spec) {
  if (spec.scores.empty()) {
    return error(StatusCode::bad_file, "{}: tokenizer.ggml.scores is missing", spec.source);
  }
  for (size_t i = 0; i < spec.scores.size(); ++i) {
    if (!std::isfinite(spec.scores[i])) {
      return error(StatusCode::bad_file, "{}: tokenizer.ggml.scores[{}] is not a finite number",
                   spec.source, i);
    }
  }
  return {};
}

int parse_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    byte = byte * 16 + digit;
  }
  return byte;
}

std::vector<int32_t> byte_tokens(const TokenizerSpec& spec) {
  std::vector<int32_t> ids(256, kNoToken);
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!spec.types.empty() && token_type(spec, id) != TokenType::byte) continue;
    const int byte = parse_byte_token(spec.tokens[i]);
    if (byte >= 0 && ids[static_cast<size_t>(byte)] == kNoToken)
      ids[static_cast<size_t>(byte)] = id;
  }
  return ids;
}

int32_t unknown_token(const TokenizerSpec& spec) {
  if (spec.unknown != kNoToken) return spec.unknown;
  for (size_t i = 0; i < spec.types.size(); ++i) {
    if (spec.types[i] == TokenType::unknown) return static_cast<int32_t>(i);
  }
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    if (spec.tokens[i] == "<unk>" || spec.tokens[i] == "[UNK]") return static_cast<int32_t>(i);
  }
  return kNoToken;
}

bool begins_with_space(std::string_view text) {
  return text.starts_with(' ') || text.starts_with(kSpaceMark);
}

std::string with_marks(std::string_view text, bool prefix) {
  std::string out;
  out.reserve(text.size() + text.size() / 4 + kSpaceMark.size());
  if (prefix && !text.empty()) out += kSpaceMark;
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescape_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    if (text.substr(pos).starts_with(kSpaceMark)) {
      out += ' ';
      pos += kSpaceMark.size();
    } else {
      out += text[pos++];
    }
  }
  return out;
}

TokenType token_type(const TokenizerSpec& spec, int32_t id) {
  return spec.types.empty() ? TokenType::normal : spec.types[static_cast<size_t>(id)];
}

bool contains(const std::vector<int32_t>& sorted, int32_t id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

bool is_text_token(const TokenizerSpec& spec, int32_t id) {
  if (contains(spec.apart, id)) return false;
  const TokenType type = token_type(spec, id);
  return type == TokenType::normal || type == TokenType::user_defined || type == TokenType::unused;
}

}  // namespace infer
