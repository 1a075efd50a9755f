#include "backends/cuda/ops/match_magnitude.h"

#include "backends/cuda/device/row_sum.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(match_magnitude, MatchMagnitudeParams, kMatchMagnitudeThreads, 1) {
  const uint32_t d1 = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.shape.rows)) return;
  const uint32_t n = p.shape.d0;
  const Global<const float> x(p.x + uint64_t{place(p.x_strides, d1, row)} * 4);
  const Global<float> y(p.y + uint64_t{place(p.shape, d1, row)} * 4);
  const Global<const float> like(p.like + uint64_t{place(p.like_strides, 0, row)} * 4);
  const auto mean_square = [&](const Global<const float>& of) {
    return row_sum(n,
                   [&](float sum, int64_t i) {
                     const float value = of[i];
                     return fused(value, value, sum);
                   }) /
           static_cast<float>(n);
  };
  const float own = mean_square(x);
  const float wanted = mean_square(like);
  const float factor = root_of(wanted / (own < p.floor ? p.floor : own));
  for (uint32_t i = thread(); i < n; i += threads()) y[i] = x[i] * factor;
}

}  // namespace infer::cuda
