#include "backends/cuda/ops/stream_gates.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(stream_gates, StreamGatesParams, kStreamGateThreads, 1) {
  INFER_SHARED(float, matrix, kStreamGateThreads);
  const uint32_t row = block_x();
  if (row >= step_rows(p.step, p.rows)) return;
  const uint32_t n = p.streams;
  const uint32_t i = thread();
  const Global<const float> x(p.x + uint64_t{row} * p.x_stride * 4);
  const auto y = [&](uint32_t element, uint32_t part) {
    return fused(Global<const float>(p.scale)[part], x[element],
                 Global<const float>(p.base)[element]);
  };
  if (i < n) Global<float>(p.taken)[uint64_t{row} * p.taken_stride + i] = sigmoid_of(y(i, 0)) + p.eps;
  if (p.iterations == 0) return;
  if (i < n) Global<float>(p.given)[uint64_t{row} * p.given_stride + i] = 2.0f * sigmoid_of(y(n + i, 1));

  const uint32_t own_row = i / n;
  const uint32_t own_column = i % n;
  const bool inside = i < n * n;
  const auto sum_of = [&](uint32_t first, uint32_t step) {
    float sum = 0;
    for (uint32_t j = 0; j < n; ++j) sum = sum + matrix[first + j * step];
    return sum;
  };
  const auto replace = [&](float value) {
    sync_block();  // all have read it
    if (inside) matrix[i] = value;
    sync_block();
  };
  float value = inside ? y(2 * n + i, 2) : 0.0f;
  replace(value);
  if (inside) {
    float most = -infinity();
    for (uint32_t j = 0; j < n; ++j) most = most_of(most, matrix[own_row * n + j]);
    value = exp_of(value - most);
  }
  replace(value);
  if (inside) value = value / sum_of(own_row * n, 1) + p.eps;
  replace(value);
  for (uint32_t turn = 0; turn < p.iterations; ++turn) {
    if (turn > 0) {
      if (inside) value = value / (sum_of(own_row * n, 1) + p.eps);
      replace(value);
    }
    if (inside) value = value / (sum_of(own_column, n) + p.eps);
    replace(value);
  }
  if (inside) Global<float>(p.mix)[uint64_t{row} * p.mix_stride + i] = value;
}

}  // namespace infer::cuda
