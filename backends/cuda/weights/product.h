// Products of weight matrices with columns of activations: matmul, moe_matmul and head_matmul, with
// what is fused into them. Parameters of the kernels in this folder.
#pragma once

#include <cstdint>

#include "backends/cuda/device/host_and_device.h"
#include "backends/cuda/ops/to_bytes.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr uint32_t kProductWarps = 8;
inline constexpr int kProductThreads = 32 * kProductWarps;
/// Columns that a block computes together, at most: with tensor cores, and in floats.
inline constexpr int64_t kProductColumns = 8;
inline constexpr int64_t kFloatColumns = 4;
/// Weights of one launch, at most.
inline constexpr uint32_t kProductWeights = 4;

/// A weight and its result. Addresses are 0 for what is not given.
struct MatrixParams {
  uint64_t w, bias, scale, y, residual;
  uint32_t n;           ///< rows
  uint32_t first_tile;  ///< of all tiles of the launch
  gpu::StridePush y_strides, residual_strides;
  float factor;  ///< of the sum with the residual
  uint32_t unused;
  uint32_t planes[4];  ///< of 1 and up: from w in units of 16 bytes
};
static_assert(sizeof(MatrixParams) == 88);

/// What follows a product.
enum After : uint32_t {
  kAfterNothing = 0,
  kAfterSum = 1,
  kAfterGlu = 2,  ///< and up: op::Glu::Kind of the results of two weights
};

/// Grid: tiles of rows (each block takes every grid.x-th), groups of columns, places along d1.
struct ProductParams {
  uint64_t step;
  uint64_t x;
  uint64_t ids;   ///< of by_ids; of by_groups what ops/moe_group.h describes
  uint64_t norm;  ///< weight of the norm; 0: none
  gpu::StridePush x_strides;
  uint32_t k;
  uint32_t matrices;      ///< of a weight
  uint32_t tiles;         ///< rows of tiles of all weights
  uint32_t weight_count;  ///< 1 for the two of a Glu
  uint32_t ids_stride;
  uint32_t rows;     ///< gpu::StepRows
  uint32_t matrix;   ///< gpu::MatrixOf
  uint32_t columns;  ///< of a group
  uint32_t normed;   ///< 1: x is normalised first
  uint32_t aligned;  ///< 1: columns begin at multiples of 16 bytes
  uint32_t after;    ///< After
  uint32_t chunk;    ///< of product.cu: tiles along K of each warp that shared memory holds
  uint32_t share;    ///< of column.cu: 2^share warps have a row of tiles together
  float eps, alpha, limit;
  uint32_t result_runs;  ///< of a tile whose sums the results have as bytes
  uint32_t stages;       ///< of column.cu: column_stages(), or 2 or 1 where shared memory is short
  /// x, rounded: for weights/stream.cu, tile.cu and column.cu. Without words, which the last may
  /// have: it is not.
  ColumnBytes bytes;
  ColumnBytes results;  ///< of a Glu of a single column, in place of y; without words: y is wanted
  MatrixParams weights[kProductWeights];
};
static_assert(sizeof(ProductParams) == 176 + kProductWeights * 88);

/// Bytes of dynamic shared memory for a tile along K of a single column (weights/column.cu).
/// `sums`: runs of a tile whose activations are summed; 0: none.
INFER_HOST_AND_DEVICE constexpr uint32_t column_bytes(uint32_t sums) { return 72 + 4 * sums; }
/// The same of `columns` columns as they are (weights/product.cu).
INFER_HOST_AND_DEVICE constexpr uint32_t product_bytes(uint32_t columns) { return 256 * columns; }

/// Tiles whose weights a warp of weights/column.cu copies together: whole pairs. `tiles`: of a
/// unit; `bytes`: of its 16 rows.
INFER_HOST_AND_DEVICE constexpr uint32_t column_piece_tiles(uint32_t tiles, uint32_t bytes) {
  return tiles > 1 ? tiles : bytes > 768 ? 2 : 4;
}
/// Bytes that a piece takes: whole rows of banks. `bytes`: of 16 rows in a tile.
INFER_HOST_AND_DEVICE constexpr uint32_t column_piece_bytes(uint32_t piece_tiles, uint32_t bytes) {
  return (piece_tiles * bytes + 127) / 128 * 128;
}
/// Pieces of weights that are on their way to a warp of weights/column.cu, or in use. `bytes`: of a
/// piece.
INFER_HOST_AND_DEVICE constexpr uint32_t column_stages(uint32_t bytes) {
  const uint32_t wanted = 6912 / bytes;
  return wanted < 3 ? 3 : wanted > 6 ? 6 : wanted;
}
/// Its blocks that a multiprocessor's registers suffice for: two of a kernel, and of the next one.
inline constexpr int kColumnBlocks = 4;

}  // namespace infer::cuda
