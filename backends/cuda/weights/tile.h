// Products of weights with many columns (weights/tile.cu). Their parameters are ProductParams,
// without x, norm and chunk; their grid: groups of tiles of rows, groups of columns, 1.
#pragma once

#include "backends/cuda/weights/product.h"

namespace infer::cuda {

/// Columns of a block.
inline constexpr uint32_t kTileColumns = 64;
/// Warps of a block, each with a tile of 16 rows: two such blocks should fit on a multiprocessor.
/// Of one where they do not, and of one for few rows or columns.
inline constexpr uint32_t kTileWarps = 8;
inline constexpr uint32_t kMostTileWarps = 16;
inline constexpr uint32_t kFewWarps = 4;
/// Tiles along K whose activations are on their way or in use.
inline constexpr uint32_t kTileStages = 4;

/// Bytes of dynamic shared memory of a block: activations, and the sums of its warps so far.
/// `runs`: of a tile whose activations are summed; 0: none.
INFER_HOST_AND_DEVICE constexpr uint32_t tile_stage_bytes(uint32_t runs) {
  return kTileColumns * (64 + 16 + 4 * runs);
}
INFER_HOST_AND_DEVICE constexpr uint32_t tile_bytes(uint32_t warps, uint32_t runs) {
  return kTileStages * tile_stage_bytes(runs) + warps * 16 * kTileColumns * 4;
}

}  // namespace infer::cuda
