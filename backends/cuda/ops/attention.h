// Attention: a block computes up to 4 heads of a row that share their keys and values.
//
// The pages that a row sees are shared out among at most kChunks chunks of equally many
// neighbouring pages, which depends on the row's own place alone. Each chunk has its largest score,
// the sum of its weights and the mix of its values, both relative to that score. Chunks are merged
// in their order, either by the block that computed them all, or by attention_merge.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = 32 * kAttentionWarps;
inline constexpr int kMergeThreads = 64;
inline constexpr uint32_t kChunks = 32;

/// Grid: blocks of heads, rows, chunks (kChunks, or 1: the block computes all of them).
struct AttentionParams {
  uint64_t step, q, slots, sequences, y;
  uint64_t sinks;   ///< 0: none
  uint64_t chunks;  ///< f32 [2 + v_dim, kChunks, heads, rows]: sum, largest score and mix
  gpu::StridePush q_strides, y_strides;
  uint32_t heads;                             ///< of queries
  uint32_t group;                             ///< heads of queries for one of keys
  uint32_t group_blocks;                      ///< blocks for those
  uint32_t kind;                              ///< of pages
  uint32_t k_offset, v_offset, k_row, v_row;  ///< bytes
  uint32_t k_type, v_type;                    ///< CacheType
  uint32_t k_dim, v_dim;
  uint32_t across;  ///< 1: keys are transposed
  /// 1: four elements of a key or value can be loaded at once.
  uint32_t keys_whole, values_whole;
  float scale, softcap;
  uint32_t window;
  uint32_t split;  ///< 1: a block computes one chunk
  uint32_t unused;
};
static_assert(sizeof(AttentionParams) == 152);

/// A thread merges an element of a head.
struct AttentionMergeParams {
  uint64_t step, chunks, slots, sinks, y;
  gpu::StridePush y_strides;
  uint32_t heads, v_dim, window;
  uint32_t unused;
};
static_assert(sizeof(AttentionMergeParams) == 64);

}  // namespace infer::cuda
