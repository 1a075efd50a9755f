// GGUF's keys of a vocabulary (`tokenizer.*`), for readers and writers.
#pragma once

#include <span>

#include "engine/weights/metadata.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

/// The id of a special token; files of before 2024 use the second name, if there is one.
struct TokenIdKey {
  const char* key;
  const char* old_key;
  int32_t TokenizerSpec::*field;
};
std::span<const TokenIdKey> token_id_keys();

struct TokenizerFlagKey {
  const char* key;
  int8_t TokenizerSpec::*field;
};
std::span<const TokenizerFlagKey> tokenizer_flag_keys();

/// What a tokenizer.json says that GGUF has no keys for. The keys are our own and are written only
/// where a value is not the default.
struct OwnFlagKey {
  const char* key;
  bool TokenizerSpec::*field;
};
std::span<const OwnFlagKey> own_flag_keys();
/// Lists of token ids.
struct OwnIdsKey {
  const char* key;
  std::vector<int32_t> TokenizerSpec::*field;
};
std::span<const OwnIdsKey> own_ids_keys();
/// Numbers of 0 and more.
struct OwnCountKey {
  const char* key;
  int32_t TokenizerSpec::*field;
  int32_t absent = 0;
};
std::span<const OwnCountKey> own_count_keys();
/// float64, by id.
inline constexpr const char* kExactScoresKey = "infer.tokenizer.scores";

/// Adds the keys of a vocabulary, as llama.cpp's converter writes them: the inverse of what reads
/// a GGUF file's. Chat templates are left out. unsupported for a `spec` whose `words` have no name.
Status add_tokenizer_keys(const TokenizerSpec& spec, Metadata& metadata);

}  // namespace infer
