// A vocabulary as a file describes it; engine/text makes a Tokenizer of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace infer {

/// Kinds of token, by the numbers GGUF uses.
enum class TokenType : uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

inline constexpr int32_t kNoToken = -1;

/// The names follow GGUF (`tokenizer.ggml.*`). Ids are checked by the reader: kNoToken or in range.
/// `tokens`, `scores`, `types` have equal length where not empty.
struct TokenizerSpec {
  std::string source;  ///< file, for messages
  std::string model;   ///< "llama", "gpt2", "bert", "t5"; "none" or empty: no vocabulary
  std::string pre;     ///< pre-tokenizer of "gpt2": "llama-bpe", "qwen2", …
  std::vector<std::string> tokens;            ///< by id
  std::vector<float> scores;                  ///< by id, or empty
  std::vector<TokenType> types;               ///< by id, or empty: all normal
  std::vector<std::string> merges;            ///< "left right", best first
  std::vector<uint8_t> precompiled_charsmap;  ///< SentencePiece normalisation (Unigram)

  int32_t bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken;
  int32_t unknown = kNoToken, separator = kNoToken, padding = kNoToken;
  int32_t cls = kNoToken, mask = kNoToken;
  int32_t fim_pre = kNoToken, fim_suf = kNoToken, fim_mid = kNoToken;
  int32_t fim_pad = kNoToken, fim_rep = kNoToken, fim_sep = kNoToken;

  // −1: the file does not say, the kind's default holds; else 0 or 1.
  int8_t add_bos = -1, add_eos = -1, add_sep = -1, add_space_prefix = -1;
  int8_t remove_extra_whitespaces = -1;
  int8_t lowercase = -1, strip_accents = -1;  ///< tokenizer.ggml.normalizer.*, for "bert"

  std::string chat_template;  ///< Jinja source, or empty
  std::vector<std::pair<std::string, std::string>> named_chat_templates;
};

}  // namespace infer
