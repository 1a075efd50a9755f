// Products of weights with many columns. Parameters of weights/tile.cu.
#pragma once

#include "backends/cuda/ops/to_bytes.h"
#include "backends/cuda/weights/product.h"

namespace infer::cuda {

/// Columns of a block.
inline constexpr uint32_t kTileColumns = 64;
/// Tiles of 16 rows of a warp: of one weight, or one of each of the two of a Glu.
inline constexpr uint32_t kTileRowTiles = 2;
/// Warps of a block; of one for few rows or columns.
inline constexpr uint32_t kTileWarps = 8;
inline constexpr uint32_t kFewWarps = 2;
/// Tiles along K whose activations are on their way or in use.
inline constexpr uint32_t kTileStages = 4;

/// Grid: groups of tiles of rows, groups of columns, 1.
struct TileParams {
  ProductParams product;  ///< x, norm and chunk are not used
  ColumnBytes x;
};
static_assert(sizeof(TileParams) == sizeof(ProductParams) + 32);

/// Bytes of dynamic shared memory of a block: activations, and the sums of its warps so far.
/// `runs`: of a tile whose activations are summed; 0: none.
INFER_HOST_AND_DEVICE constexpr uint32_t tile_stage_bytes(uint32_t runs) {
  return kTileColumns * (64 + 16 + 8 * runs);
}
INFER_HOST_AND_DEVICE constexpr uint32_t tile_bytes(uint32_t warps, uint32_t runs) {
  return kTileStages * tile_stage_bytes(runs) + warps * kTileRowTiles * 16 * kTileColumns * 4;
}

}  // namespace infer::cuda
