// The columns of activations of a product as bytes (device/bytes.h), each rounded once for all rows
// of weights: as they are, or normalised first (to_bytes_normed).
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kToBytesThreads = 256;
inline constexpr int kToBytesNormedThreads = 1024;

/// Where the bytes of columns are, by tile of 64 elements of K and column (row · d1 + place).
struct ColumnBytes {
  uint64_t words;   ///< u32 [4][4, columns, tiles]: word 2m + h of lane t of a group is that of
                    ///< elements 32m + 16h + 4t to + 3: registers of B (device/mma.h)
  uint64_t scales;  ///< f32 [2][2, columns, tiles]: of 32 elements each, and raised_scale() of them
  uint64_t sums;    ///< f32 [runs, columns, tiles]: negative_sum() of the elements of a run
  uint32_t columns;  ///< all that there is room for
  uint32_t d1;       ///< columns of a row of the step
};
static_assert(sizeof(ColumnBytes) == 32);

/// Grid: pieces of 32 elements, places, rows; 8 threads a piece. Of to_bytes_normed: 1, places,
/// rows.
struct ToBytesParams {
  uint64_t step, x;
  uint64_t norm;  ///< weight of the norm; 0: none
  ColumnBytes to;
  gpu::StridePush strides;
  uint32_t k;
  uint32_t tiles;
  uint32_t rows;     ///< gpu::StepRows
  uint32_t runs;     ///< of a tile whose sums are wanted: 0, 2 or 4
  uint32_t aligned;  ///< 1: columns begin at multiples of 16 bytes
  float eps;         ///< of the norm
};
static_assert(sizeof(ToBytesParams) == 88);

}  // namespace infer::cuda
