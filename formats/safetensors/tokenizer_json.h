// The vocabulary of a Hugging Face directory.
#pragma once

#include <string>

#include "engine/weights/metadata.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer::safetensors {

/// The path of the file that has a directory's vocabulary; empty if there is none.
std::string vocabulary_file(const std::string& directory);

/// Reads tokenizer.json (as the library `tokenizers` writes it) with the special tokens of
/// tokenizer_config.json and special_tokens_map.json. `config` has config.json's values under
/// "hf.config.": a vocabulary smaller than its vocab_size is filled up with "[PAD123]". Merges in
/// the manner of SentencePiece give a "llama" with scores that do the same, byte-level ones a
/// "gpt2" with `words`, Unigram a "t5", WordPiece a "bert". Without the file,
/// tokenizer.model (sentencepiece_model.h) with added_tokens.json, tokenizer.jsonl (token_rows.h),
/// or tiktoken.model or qwen.tiktoken (ranked_tokens.h); without any of them an empty vocabulary
/// ("none").
/// io, bad_file naming file, place, expected and found, or unsupported naming what the tokenizers
/// here cannot do.
Result<TokenizerSpec> read_tokenizer(const std::string& directory, const Metadata& config);

}  // namespace infer::safetensors
