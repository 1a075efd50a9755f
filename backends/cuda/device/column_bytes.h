// Columns as bytes in memory (ops/to_bytes.h).
#pragma once

#include "backends/cuda/device/bytes.h"
#include "backends/cuda/ops/to_bytes.h"

namespace infer::cuda {

/// Rounds piece `piece` of 32 elements of a column into its place. Each of eight lanes has four of
/// them in `x`; all lanes of a warp take part. Pieces may be beyond the last, and are not stored.
/// `tiles`: of the column; `runs`: of a tile whose sums are wanted.
INFER_DEVICE void store_piece(const ColumnBytes& to, uint32_t tiles, uint32_t runs, uint32_t column,
                              uint32_t piece, const float4& x) {
  const uint32_t part = lane() % 8;
  const FourBytes four = bytes_of_four(x);
  const int32_t sum = runs != 0 ? sum_of_run(four.sum, 64 / runs) : 0;
  if (piece >= 2 * tiles) return;
  const uint32_t m = piece % 2;
  const uint64_t at = uint64_t{piece / 2} * to.columns + column;
  Global<uint32_t>(to.words)[at * 16 + part % 4 * 4 + 2 * m + part / 4] = four.word;
  if (part == 0) {
    Global<float>(to.scales)[at * 4 + m] = four.scale;
    Global<float>(to.scales)[at * 4 + 2 + m] = raised_scale(four.scale);
  }
  if (runs == 0) return;
  const uint32_t of_run = 16 / runs;  // lanes
  if (part % of_run == 0) {
    const uint64_t run = at * runs + m * (runs / 2) + part / of_run;
    Global<float>(to.sums)[run] = negative_sum(four.scale, sum);
  }
}

}  // namespace infer::cuda
