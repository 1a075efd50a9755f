// SentencePiece's own file of a vocabulary, tokenizer.model.
#pragma once

#include <string>

#include "engine/core/status.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer::safetensors {

/// Reads the tokens, their scores and types, the special ids and what happens to a text before.
/// BPE gives a "llama", Unigram a "t5". Source: sentencepiece_model.proto of the library, a message
/// of Protocol Buffers (protobuf.dev, "Encoding").
/// not_found, io, bad_file naming the field and its byte, or unsupported naming what the tokenizers
/// here cannot do.
Result<TokenizerSpec> read_sentencepiece_model(const std::string& path);

}  // namespace infer::safetensors
