#include "backends/cuda/ops/to_bytes.h"

#include "backends/cuda/device/column_bytes.h"
#include "backends/cuda/device/norm.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_DEVICE void round_piece(const ToBytesParams& p, uint32_t row, uint32_t piece,
                              const float4& x) {
  store_piece(p.to, p.tiles, p.runs, row * p.to.d1 + block_y(), piece, x);
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
