#include "backends/cuda/ops/to_bytes.h"

#include "backends/cuda/device/bytes.h"
#include "backends/cuda/device/norm.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

/// Rounds a piece of 32 elements, of which each of eight lanes has four in `x`. Pieces may be
/// beyond the last.
INFER_DEVICE void round_piece(const ToBytesParams& p, uint32_t row, uint32_t piece,
                              const float4& x) {
  const uint32_t part = lane() % 8;
  const FourBytes four = bytes_of_four(x);
  const int32_t sum = p.runs != 0 ? sum_of_run(four.sum, 64 / p.runs) : 0;
  if (piece >= 2 * p.tiles) return;
  const uint32_t m = piece % 2;
  const uint64_t at = uint64_t{piece / 2} * p.to.columns + row * p.to.d1 + block_y();
  Global<uint32_t>(p.to.words)[at * 16 + part % 4 * 4 + 2 * m + part / 4] = four.word;
  if (part == 0) {
    Global<float>(p.to.scales)[at * 4 + m] = four.scale;
    Global<float>(p.to.scales)[at * 4 + 2 + m] = raised_scale(four.scale);
  }
  if (p.runs == 0) return;
  const uint32_t of_run = 16 / p.runs;  // lanes
  if (part % of_run == 0) {
    const float2 parts = negative_parts(four.scale * static_cast<float>(sum));
    const uint64_t run = at * 2 * p.runs + m * (p.runs / 2) + part / of_run;
    Global<float>(p.to.sums)[run] = parts.x;
    Global<float>(p.to.sums)[run + p.runs] = parts.y;
  }
}

INFER_KERNEL(to_bytes, ToBytesParams, kToBytesThreads, 1) {
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.rows)) return;
  const uint32_t piece = (block_x() * threads() + thread()) / 8;
  const uint32_t from = place(p.strides, block_y(), row);
  const float4 x =
      four_elements(Global<const float>(p.x), from, piece * 32 + lane() % 8 * 4, p.k, p.aligned);
  round_piece(p, row, piece, x);
}

INFER_KERNEL(to_bytes_normed, ToBytesParams, kToBytesNormedThreads, 1) {
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.rows)) return;
  const Global<const float> x(p.x);
  const uint32_t from = place(p.strides, block_y(), row);
  uint32_t i = thread() * 4;
  float4 four = four_elements(x, from, i, p.k, p.aligned);  // on their way meanwhile
  const float factor = norm_factor(x, from, p.k, p.eps);
  for (uint32_t first = 0; first < 16 * p.tiles; first += threads()) {
    round_piece(p, row, i / 32, normed(four, factor, p.norm, i, p.k));
    i += 4 * threads();
    four = four_elements(x, from, i, p.k, p.aligned);
  }
}

}  // namespace infer::cuda
