#include "backends/cuda/ops/layer_norm.h"

#include "backends/cuda/device/row_sum.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(layer_norm, LayerNormParams, kLayerNormThreads, 1) {
  const uint32_t d1 = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.shape.rows)) return;
  const uint32_t n = p.shape.d0;
  const Global<const float> x(p.x + uint64_t{place(p.x_strides, d1, row)} * 4);
  const Global<float> y(p.y + uint64_t{place(p.shape, d1, row)} * 4);
  const Global<const float> weight(p.weight + uint64_t{place(p.weight_strides, d1, 0)} * 4);
  const Global<const float> bias(p.bias);
  const auto count = static_cast<float>(n);
  const float mean = row_sum(n, [&](float sum, int64_t i) { return sum + x[i]; }) / count;
  const float squares = row_sum(n, [&](float sum, int64_t i) {
    const float off = x[i] - mean;
    return fused(off, off, sum);
  });
  const float factor = 1.0f / root_of(squares / count + p.eps);
  for (uint32_t i = thread(); i < n; i += threads()) {
    const float normed = (x[i] - mean) * factor;
    const float scaled = p.weight != 0 ? normed * weight[i] : normed;
    y[i] = p.bias != 0 ? scaled + bias[i] : scaled;
  }
}

}  // namespace infer::cuda
