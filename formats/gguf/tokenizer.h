// The vocabulary in a GGUF file's metadata (`tokenizer.*`).
#pragma once

#include "engine/weights/metadata.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer::gguf {

/// bad_file naming the key where lengths differ, an id is outside the vocabulary, a score is not a
/// number, or a vocabulary is named and absent. A file without a vocabulary gives an empty one, and
/// no special tokens, as there is nothing that their ids could refer to.
Result<TokenizerSpec> read_tokenizer(const Metadata& metadata);

}  // namespace infer::gguf
