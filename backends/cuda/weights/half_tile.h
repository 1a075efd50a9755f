// Products of weights of 16 bits with columns of prompts. Parameters of weights/half_tile.cu.
#pragma once

#include "backends/cuda/ops/to_halves.h"
#include "backends/cuda/weights/product.h"

namespace infer::cuda {

/// Elements of K of a stage, and stages whose weights and activations are on their way or in use.
inline constexpr uint32_t kHalfDepth = 32;
inline constexpr uint32_t kHalfStages = 3;

/// How a block shares its rows and columns: warps along both, and what each has.
template <uint32_t kAlongRows, uint32_t kAlongColumns, uint32_t kRowTiles, uint32_t kColumnPairs>
struct HalfBlock {
  static constexpr uint32_t kWarpsDown = kAlongRows;
  static constexpr uint32_t kThreads = 32 * kAlongRows * kAlongColumns;
  static constexpr uint32_t kTilesDown = kRowTiles;       ///< of 16 rows, of a warp
  static constexpr uint32_t kPairsAcross = kColumnPairs;  ///< of 16 columns, of a warp
  static constexpr uint32_t kRows = kAlongRows * kRowTiles * 16;
  static constexpr uint32_t kColumns = kAlongColumns * kColumnPairs * 16;
};
/// A multiprocessor has registers for two, and 100 KiB of shared memory for one.
using LargeHalfBlock = HalfBlock<2, 4, 4, 2>;
/// Of few rows or columns: more blocks, of which a multiprocessor holds three.
using SmallHalfBlock = HalfBlock<2, 2, 2, 1>;

/// Bytes of shared memory of a block.
template <typename Block>
INFER_HOST_AND_DEVICE constexpr uint32_t half_tile_bytes() {
  return kHalfStages * kHalfDepth * 2 * (Block::kRows + kHalfParts * Block::kColumns);
}

/// Grid: groups of rows, groups of columns.
struct HalfTileParams {
  ProductParams product;  ///< x, norm and chunk are not used
  ColumnHalves x;
};
static_assert(sizeof(HalfTileParams) == sizeof(ProductParams) + 24);

}  // namespace infer::cuda
