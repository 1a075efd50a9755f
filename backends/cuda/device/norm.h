// The factor of a row's norm (op::RmsNorm), by all threads of a block of any size.
#pragma once

#include "backends/cuda/device/memory.h"
#include "backends/cuda/device/row_sum.h"

namespace infer::cuda {

/// Calls in a row need no barrier between them.
INFER_DEVICE float norm_factor(const Global<const float>& x, uint32_t from, uint32_t n, float eps) {
  const float squares = row_sum(n, [&](float sum, uint32_t i) {
    const float value = x[from + i];
    return fused(value, value, sum);
  });
  const float mean = squares / static_cast<float>(n) + eps;
  return 1.0f / root_of(mean);
}

}  // namespace infer::cuda
