#include "backends/cuda/ops/outstanding.h"

#include "backends/cuda/device/row_sum.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(outstanding, OutstandingParams, kOutstandingThreads, 1) {
  const uint32_t d1 = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.shape.rows)) return;
  const uint32_t n = p.shape.d0;
  const Global<const float> x(p.x + uint64_t{place(p.x_strides, d1, row)} * 4);
  const Global<float> y(p.y + uint64_t{place(p.shape, d1, row)} * 4);
  const auto count = static_cast<float>(n);
  const float mean = row_sum(n, [&](float sum, int64_t i) { return sum + x[i]; }) / count;
  const float squares = row_sum(n, [&](float sum, int64_t i) {
    const float off = x[i] - mean;
    return fused(off, off, sum);
  });
  const float least = p.factor * root_of(squares / count);
  for (uint32_t i = thread(); i < n; i += threads()) {
    const float off = x[i] - mean;
    y[i] = off < least ? 0.0f : off - least;
  }
}

}  // namespace infer::cuda
