// Vocabularies in the form of the library tiktoken: tiktoken.model, qwen.tiktoken.
#pragma once

#include <string>

#include "engine/core/status.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer::safetensors {

/// Reads lines of a token's bytes in base64, a space and its rank, which is its id, into a "gpt2"
/// without special tokens. The library joins any two tokens whose bytes together are a token, the
/// one of the lowest rank first: `merges` has all such pairs in that order.
/// not_found, io, or bad_file naming the line, what was expected and what was found.
Result<TokenizerSpec> read_ranked_tokens(const std::string& path);

}  // namespace infer::safetensors
