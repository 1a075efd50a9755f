// Products of quantised weights with columns of prompts, decoded to float16. Parameters of
// weights/decoded_tile.cu.
#pragma once

#include "backends/cuda/ops/to_fragments.h"
#include "backends/cuda/weights/half_tile.h"

namespace infer::cuda {

/// Tiles along K whose weights are copied together. `of_unit`: of a unit of the type.
INFER_HOST_AND_DEVICE constexpr uint32_t decoded_group(uint32_t of_unit) {
  return of_unit == 1 ? 2 : of_unit;
}

/// How a block shares its rows and columns: warps side by side along the rows, and what each has.
/// kColumnStages: of 64 elements of K of its columns, that are on their way or in use.
template <uint32_t kAlongRows, uint32_t kRowTiles, uint32_t kColumnTiles, uint32_t kColumnStages>
struct DecodedBlock {
  static constexpr uint32_t kWarps = kAlongRows;
  static constexpr uint32_t kThreads = 32 * kWarps;
  static constexpr uint32_t kTilesDown = kRowTiles;       ///< of 16 rows, of a warp
  static constexpr uint32_t kTilesAcross = kColumnTiles;  ///< of 8 columns
  static constexpr uint32_t kStages = kColumnStages;
  static constexpr uint32_t kAhead = kStages - 1;  ///< that are copied before one is used
  /// Groups of `group` tiles of weights that are on their way or in use. Those that a stage of
  /// columns brings with it take the place of some that have been used.
  INFER_HOST_AND_DEVICE static constexpr uint32_t weight_stages(uint32_t group) {
    return (kAhead + group - 1) / group + 1;
  }
  static constexpr uint32_t kTiles = kAlongRows * kRowTiles;
  static constexpr uint32_t kRows = kTiles * 16;
  static constexpr uint32_t kColumns = kColumnTiles * 8;
  /// Floats from a column's sums to the next one's.
  static constexpr uint32_t kSumsStep = kRows + 4;
};
/// A multiprocessor has registers for two.
using LargeDecodedBlock = DecodedBlock<4, 2, 16, 3>;
/// Of few rows or columns: more blocks, of which a multiprocessor has registers for six.
using SmallDecodedBlock = DecodedBlock<2, 2, 8, 4>;
/// Of very few columns: what takes time is to bring the weights.
using NarrowDecodedBlock = DecodedBlock<2, 1, 2, 5>;

/// How a block of warpgroups shares its rows and columns: a warpgroup has 64 rows and all columns.
/// kColumnStages: as above; two of them may be in use at once.
template <uint32_t kWarpgroups, uint32_t kAcross, uint32_t kColumnStages>
struct WarpgroupBlock {
  static constexpr uint32_t kWarps = 4 * kWarpgroups;
  static constexpr uint32_t kThreads = 32 * kWarps;
  static constexpr uint32_t kStages = kColumnStages;
  static constexpr uint32_t kAhead = kStages - 2;
  INFER_HOST_AND_DEVICE static constexpr uint32_t weight_stages(uint32_t group) {
    return (kAhead + group - 1) / group + 1;
  }
  static constexpr uint32_t kTiles = kWarps;  ///< of 16 rows
  static constexpr uint32_t kRows = kTiles * 16;
  static constexpr uint32_t kColumns = kAcross;
  static constexpr uint32_t kSumsStep = kRows + 4;
};
/// Bytes of shared memory that a block has beside what decoded_tile_bytes() says, at most.
inline constexpr uint32_t kWarpgroupBarriers = 128;
/// A multiprocessor has registers for two. One block of twice as many columns was slower.
using LargeWarpgroupBlock = WarpgroupBlock<2, 128, 4>;
/// Of fewer rows or columns: it has registers for four.
using SmallWarpgroupBlock = WarpgroupBlock<1, 64, 4>;
/// Of very few columns: what takes time is to bring the weights, so that many are on their way.
using NarrowWarpgroupBlock = WarpgroupBlock<1, 16, 14>;

/// Bytes of dynamic shared memory of a block. `weights`: bytes of 16 rows and `group` tiles.
template <typename Block>
INFER_HOST_AND_DEVICE constexpr uint32_t decoded_tile_bytes(uint32_t weights, uint32_t group) {
  const uint32_t stages = Block::kStages * 128 * Block::kColumns +
                          Block::weight_stages(group) * Block::kTiles * weights;
  const uint32_t sums = 4 * Block::kColumns * Block::kSumsStep;
  return stages > sums ? stages : sums;
}

/// Grid: groups of rows, groups of columns. Of a Glu, half of a group's rows are of each weight.
using DecodedTileParams = HalfTileParams;

}  // namespace infer::cuda
