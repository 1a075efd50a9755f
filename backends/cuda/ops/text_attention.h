// Attention among the rows of a text, without a cache.
//
// Prompts, texts to embed and images: keys and values become float16 in work space, then a block
// computes a tile of queries on tensor cores (text_attention_tile.cu). Without tensor cores, or
// where products are to be exact: in float32 (text_attention.cu).
#pragma once

#include <cstdint>

#include "backends/cuda/ops/attention_tile.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr uint32_t kTextQueries = 16;  ///< rows of a block in float32
inline constexpr uint32_t kTextKeys = 64;     ///< visited together, and threads of a block
/// Threads of a block that makes keys and values float16; each makes two of them.
inline constexpr uint32_t kTextHalves = 256;

/// In float32: grid: blocks of rows, heads. Dynamic shared memory: the queries.
/// By tiles: grid: heads of keys, tiles.
struct TextAttentionParams {
  uint64_t step, q, k, v, y, begins, ends;
  uint64_t sinks;   ///< by head; 0: none
  uint64_t slopes;  ///< by head; 0: scores have no biases
  /// Of tiles: float16 [kSize, most_rows, heads of keys] of keys, then of values; what is behind
  /// their elements is 0.
  uint64_t halves;
  gpu::StridePush q_strides, k_strides, v_strides, y_strides;
  uint32_t k_dim, v_dim;
  uint32_t group;  ///< heads of queries for one of keys
  float scale, softcap;
  int32_t before, after;  ///< rows that a row sees; -1: all of its text
  uint32_t chunk;         ///< as in op::TextAttention
  uint32_t most_rows;     ///< of a step
  uint32_t rows;          ///< which of the step's rows these are
};
static_assert(sizeof(TextAttentionParams) == 152);

/// The sizes of heads that have tiles, and the blocks that a multiprocessor holds. Others are
/// computed with the next larger one.
#define INFER_TEXT_TILES(TILE) TILE(64, 3) TILE(80, 2) TILE(128, 2) TILE(256, 2)

}  // namespace infer::cuda
