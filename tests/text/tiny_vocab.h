// Small vocabularies made in code.
#pragma once

#include <doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"

namespace infer::test {

/// Adds a token; returns its id.
inline int32_t add_token(TokenizerSpec& spec, std::string text, TokenType type = TokenType::normal,
                         float score = 0) {
  spec.tokens.push_back(std::move(text));
  spec.types.push_back(type);
  spec.scores.push_back(score);
  return static_cast<int32_t>(spec.tokens.size() - 1);
}

inline std::string byte_token(int byte) {
  constexpr char kHex[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
}

/// <unk>, <s>, </s> and the byte tokens, as SentencePiece vocabularies begin.
inline TokenizerSpec sentencepiece_spec() {
  TokenizerSpec spec;
  spec.source = "tiny.gguf";
  spec.model = "llama";
  spec.unknown = add_token(spec, "<unk>", TokenType::unknown);
  spec.bos = add_token(spec, "<s>", TokenType::control);
  spec.eos = add_token(spec, "</s>", TokenType::control);
  for (int b = 0; b < 256; ++b) add_token(spec, byte_token(b), TokenType::byte);
  return spec;
}

/// GPT-2's spelling of bytes.
inline std::string byte_spelling(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto b = static_cast<uint8_t>(c);
    char32_t next = 0x100;
    char32_t code = b;
    for (int i = 0; i <= b; ++i) {
      const bool printable = (i >= 0x21 && i <= 0x7e) || (i >= 0xa1 && i <= 0xac) || i >= 0xae;
      if (!printable) code = next++;
      if (printable && i == b) code = b;
    }
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else {
      out += static_cast<char>(0xc0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return out;
}

/// The 256 bytes, then for each merge (pairs of raw bytes) its result.
inline TokenizerSpec byte_bpe_spec(const std::vector<std::pair<std::string, std::string>>& merges,
                                   std::string pre = "gpt-2") {
  TokenizerSpec spec;
  spec.source = "tiny.gguf";
  spec.model = "gpt2";
  spec.pre = std::move(pre);
  for (int b = 0; b < 256; ++b)
    add_token(spec, byte_spelling(std::string(1, static_cast<char>(b))));
  for (const auto& [left, right] : merges) {
    add_token(spec, byte_spelling(left + right));
    spec.merges.push_back(byte_spelling(left) + " " + byte_spelling(right));
  }
  spec.scores.clear();
  return spec;
}

/// Unigram with <pad>, </s>, <unk> in T5's order.
inline TokenizerSpec unigram_spec() {
  TokenizerSpec spec;
  spec.source = "tiny.gguf";
  spec.model = "t5";
  spec.add_space_prefix = 1;
  spec.remove_extra_whitespaces = 1;
  spec.padding = add_token(spec, "<pad>", TokenType::control);
  spec.eos = add_token(spec, "</s>", TokenType::control);
  spec.unknown = add_token(spec, "<unk>", TokenType::unknown);
  return spec;
}

inline std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message());
  return *std::move(tokenizer);
}

}  // namespace infer::test
