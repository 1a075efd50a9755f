#include "backends/cuda/ops/rms_norm.h"

#include "backends/cuda/device/norm.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(rms_norm, RmsNormParams, kNormThreads, 1) {
  const uint32_t d1 = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.shape.rows)) return;
  const Global<const float> x(p.x);
  const Global<float> y(p.y);
  const uint32_t from = place(p.x_strides, d1, row);
  const uint32_t to = place(p.shape, d1, row);
  const float factor = norm_factor(x, from, p.shape.d0, p.eps);
  for (uint32_t i = thread(); i < p.shape.d0; i += threads()) {
    const float value = x[from + i] * factor;
    y[to + i] = p.weight != 0 ? value * Global<const float>(p.weight)[i] : value;
  }
}

}  // namespace infer::cuda
