// Queries, keys and values that lie in one matrix of a Hugging Face checkpoint, by head.
#pragma once

#include <string>

#include "engine/model/checkpoint.h"

namespace infer {

/// Writes "attn_qkv" of every layer, and its bias where there is one, from a matrix whose rows are
/// by key-value head: those of the query heads that share it, its keys and its values. `part`: of a
/// layer, such as "attention.query_key_value"; `width`: elements of x, and of all query heads. A
/// failure if heads do not divide it.
void map_grouped_qkv(CheckpointMap& m, const std::string& part, int64_t width, int64_t kv_heads);

}  // namespace infer
