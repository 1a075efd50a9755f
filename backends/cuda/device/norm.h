// The factor of a row's norm (op::RmsNorm), by all threads of a block of any size: 256 sums of
// every 256th square, then 16 of 16 of them, then all.
#pragma once

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/memory.h"

namespace infer::cuda {

/// Calls in a row need no barrier between them.
INFER_DEVICE float norm_factor(const Global<const float>& x, uint32_t from, uint32_t n, float eps) {
  constexpr uint32_t kSums = 256;
  INFER_SHARED(float, sums, kSums);
  INFER_SHARED(float, sums_of_16, 16);
  for (uint32_t s = thread(); s < kSums; s += threads()) {
    float squares = 0;
    for (uint32_t i = s; i < n; i += kSums) {
      const float value = x[from + i];
      squares = fused(value, value, squares);
    }
    sums[s] = squares;
  }
  sync_block();
  for (uint32_t s = thread(); s < 16; s += threads()) {
    float sum = 0;
    for (uint32_t i = 0; i < 16; ++i) sum = sum + sums[16 * s + i];
    sums_of_16[s] = sum;
  }
  sync_block();
  float all = 0;
  for (uint32_t s = 0; s < 16; ++s) all = all + sums_of_16[s];
  const float mean = all / static_cast<float>(n) + eps;
  return 1.0f / root_of(mean);
}

}  // namespace infer::cuda
