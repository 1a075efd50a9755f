// Attention among the rows of a text, without a cache.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr uint32_t kTextQueries = 16;  ///< rows of a block
inline constexpr uint32_t kTextKeys = 64;     ///< visited together, and threads of a block

/// Grid: blocks of rows, heads. Dynamic shared memory: the queries.
struct TextAttentionParams {
  uint64_t step, q, k, v, y, begins, ends;
  uint64_t sinks;   ///< by head; 0: none
  uint64_t slopes;  ///< by head; 0: scores have no biases
  gpu::StridePush q_strides, k_strides, v_strides, y_strides;
  uint32_t k_dim, v_dim;
  uint32_t group;  ///< heads of queries for one of keys
  float scale, softcap;
  int32_t before, after;  ///< rows that a row sees; -1: all of its text
  uint32_t chunk;         ///< as in op::TextAttention
};
static_assert(sizeof(TextAttentionParams) == 136);

}  // namespace infer::cuda
