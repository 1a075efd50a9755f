// PLaMo's file of a vocabulary, tokenizer.jsonl.
#pragma once

#include <string>

#include "engine/core/status.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer::safetensors {

/// Reads lines [spelling, score, kind, …], one a token, into a "plamo2". A kind is "BYTE",
/// "CONTROL", "UNKNOWN" or anything else. Special tokens are those that PLaMo calls <|plamo:bos|>
/// and so on.
/// not_found, io, or bad_file naming the line, what was expected and what was found.
Result<TokenizerSpec> read_token_rows(const std::string& path);

}  // namespace infer::safetensors
