// Attention over a window of slots and blocks of slots, or a list of slots (blocks of one): a block
// computes some heads of a row, which share the keys and values that it reads.
//
// The keys that a row sees, 64 a page, are shared out among chunks as those of attention are
// (attention.h). With few rows a block computes one chunk, and the last to end merges them.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/to_bytes.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kPooledThreads = 128;
/// Elements of a value, at most: a thread has four.
inline constexpr uint32_t kMostPooledValue = 4 * kPooledThreads;
/// Elements of a key, at most: queries lie in shared memory.
inline constexpr uint32_t kMostPooledKey = 1024;
inline constexpr uint32_t kPooledHeads = 8;  ///< of a block

/// Keys and values of one of the two layers in a page.
struct PooledLayer {
  uint32_t kind;                              ///< of pages
  uint32_t k_offset, v_offset, k_row, v_row;  ///< bytes
  uint32_t k_element;                         ///< bytes of an element of transposed keys, or 0
  uint32_t tokens;                            ///< slots of a block that has one key
  uint32_t unused;
};

/// Grid: blocks of heads, rows, chunks (kChunks, or 1: the block computes all of them). Dynamic
/// shared memory: the queries, floats [k_dim padded to a multiple of 4, kPooledHeads].
struct PooledAttentionParams {
  uint64_t step, q, slots, sequences, y;
  uint64_t sinks;             ///< 0: none
  uint64_t chosen;            ///< 0: all blocks are seen
  uint64_t chunks, counters;  ///< as AttentionParams has them
  gpu::StridePush q_strides, y_strides;
  PooledLayer layers[2];  ///< of slots, of blocks
  uint32_t heads, k_dim, v_dim;
  uint32_t k_type, v_type;            ///< CacheType
  uint32_t keys_whole, values_whole;  ///< 1: four elements can be loaded at once
  uint32_t window;
  uint32_t chosen_stride, chosen_count;
  float scale;
  uint32_t split;  ///< 1: a block computes one chunk
  // As AttentionParams has them.
  ColumnBytes results;
  uint32_t result_runs;
  uint32_t unused;
};

}  // namespace infer::cuda
