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

/// Four elements of a row of n from element i on, normalised. `weight`: 0 if there is none.
INFER_DEVICE float4 normed(float4 v, float factor, uint64_t weight, uint32_t i, uint32_t n) {
  v.x = v.x * factor;
  v.y = v.y * factor;
  v.z = v.z * factor;
  v.w = v.w * factor;
  if (weight == 0) return v;
  const Global<const float> of(weight);
  if (weight % 16 == 0 && i % 4 == 0 && i + 4 <= n) {
    const float4 own = load_as<float4>(of, i);
    return {v.x * own.x, v.y * own.y, v.z * own.z, v.w * own.w};
  }
  if (i < n) v.x = v.x * of[i];
  if (i + 1 < n) v.y = v.y * of[i + 1];
  if (i + 2 < n) v.z = v.z * of[i + 2];
  if (i + 3 < n) v.w = v.w * of[i + 3];
  return v;
}

}  // namespace infer::cuda
