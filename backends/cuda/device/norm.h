// The factor of a row's norm (op::RmsNorm), by all threads of a block of any size.
#pragma once

#include "backends/cuda/device/memory.h"
#include "backends/cuda/device/row_sum.h"

namespace infer::cuda {

/// Calls in a row need no barrier between them.
INFER_DEVICE float norm_factor(const Global<const float>& x, uint32_t from, uint32_t n, float eps) {
  const Global<const float> row(x.address() + uint64_t{from} * sizeof(float));
  const float squares = row_sum(n, [&](float sum, int64_t i) {
    const float value = row[i];
    return fused(value, value, sum);
  });
  const float mean = squares / static_cast<float>(n) + eps;
  return 1.0f / root_of(mean);
}

INFER_DEVICE float4 scaled(const float4& v, float factor) {
  return {v.x * factor, v.y * factor, v.z * factor, v.w * factor};
}
INFER_DEVICE float4 scaled(const float4& v, const float4& by) {
  return {v.x * by.x, v.y * by.y, v.z * by.z, v.w * by.w};
}

/// Four elements of a row of n from element i on, normalised. `weight`: 0 if there is none.
INFER_DEVICE float4 normed(float4 v, float factor, uint64_t weight, uint32_t i, uint32_t n) {
  v = scaled(v, factor);
  if (weight == 0) return v;
  const Global<const float> of(weight);
  if (weight % 16 == 0 && i % 4 == 0 && i + 4 <= n) {
    return scaled(v, load_as<float4>(of, i));
  }
  if (i < n) v.x = v.x * of[i];
  if (i + 1 < n) v.y = v.y * of[i + 1];
  if (i + 2 < n) v.z = v.z * of[i + 2];
  if (i + 3 < n) v.w = v.w * of[i + 3];
  return v;
}

}  // namespace infer::cuda
