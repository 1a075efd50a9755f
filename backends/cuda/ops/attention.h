// Attention: a block computes up to 4 heads of a row that share their keys and values.
//
// The pages that a row sees are shared out among at most kChunks chunks of equally many
// neighbouring pages, which depends on the row's own place alone. Each chunk has its largest score,
// the sum of its weights and the mix of its values, both relative to that score. Chunks are merged
// in their order, by the block that computed them all, or by the last block to end of those that
// computed one each.
//
// Prompts: a block computes a tile of queries, of neighbouring rows and the heads that share their
// keys, on tensor cores (attention_tile.cu).
#pragma once

#include <cstdint>

#include "backends/cuda/ops/attention_tile.h"
#include "backends/cuda/ops/to_bytes.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = 32 * kAttentionWarps;
/// Elements of a head whose results can be stored as bytes: whole tiles.
inline constexpr int kResultElements = 64;
inline constexpr uint32_t kChunks = 32;

/// Rows with a list of single slots and one head of keys are pooled_attention.h's.
///
/// Grid: blocks of heads, rows, chunks (kChunks, or 1: the block computes all of them).
struct AttentionParams {
  uint64_t step, q, slots, sequences, y;
  uint64_t last_seen;  ///< the last slots that rows see: `slots`, or others
  uint64_t sinks;      ///< 0: none
  uint64_t chunks;     ///< f32 [2 + v_dim, kChunks, heads, rows]: sum, largest score and mix
  uint64_t counters;   ///< u32 [blocks of heads, rows]: chunks that are done; 0 before and after
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
  uint32_t window, chunked;  ///< first_seen()
  uint32_t split;            ///< 1: a block computes one chunk
  uint32_t result_runs;      ///< of a tile whose sums the results have as bytes
  ColumnBytes results;       ///< of a split row in place of y; without words: y is wanted
  /// The count of the step's rows (gpu::StepRows) up to which they are computed; tiles compute
  /// those from the generated ones on.
  uint32_t rows;
  uint32_t first_row;  ///< of the grid
  // Of a single row whose token is not stored yet, and whose query and key are not turned: the
  // block that computes the last chunk of a head stores them. Without a table: nothing of it.
  uint64_t k, v, table;
  gpu::StridePush k_strides, v_strides, table_strides;
  uint32_t style;  ///< op::Rope::Style
  uint32_t pairs;
  /// The slots that rows see, ascending: places in this list are as slots then. 0: they see all.
  uint64_t chosen;
  uint32_t chosen_stride;       ///< of rows
  uint32_t chosen_list_stride;  ///< of the heads of keys; 0: they share a list
  uint32_t chosen_count;
  uint32_t chosen_block;  ///< op::SelectSlots::block
  uint32_t chosen_shift;  ///< 0 if heads choose for themselves, 1 if not
  uint32_t unused;
  uint64_t slopes;  ///< by head; 0: scores have no biases
};
static_assert(sizeof(AttentionParams) == 312);

/// The sizes of keys and values that have tiles, and the blocks that a multiprocessor holds by the
/// registers; by shared memory of 100 KiB it holds as many, but one of the two widest.
#define INFER_ATTENTION_TILES(TILE) \
  TILE(32, 32, 3)                   \
  TILE(64, 64, 3)                   \
  TILE(80, 80, 2)                   \
  TILE(96, 96, 2)                   \
  TILE(112, 112, 2)                 \
  TILE(128, 128, 2)                 \
  TILE(192, 128, 2)                 \
  TILE(256, 256, 2)

/// Those of them that have kernels for scores with biases: attention_tile_biased_…
#define INFER_BIASED_TILES(TILE) \
  TILE(64, 64, 3)                \
  TILE(128, 128, 2)

}  // namespace infer::cuda
