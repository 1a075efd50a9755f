// A sum over a row, by all threads of a block of any size: 256 sums of every 256th element, then 16
// of 16 of them, then all.
#pragma once

#include "backends/cuda/device/math.h"

namespace infer::cuda {

/// `add(sum, i)`: the sum with what element i of n gives to it. Calls in a row need no barrier
/// between them.
template <typename Add>
INFER_DEVICE float row_sum(uint32_t n, const Add& add) {
  constexpr uint32_t kSums = 256;
  INFER_SHARED(float, sums, kSums);
  INFER_SHARED(float, sums_of_16, 16);
  for (uint32_t s = thread(); s < kSums; s += threads()) {
    float sum = 0;
    int64_t i = s;
#pragma unroll 1
    for (; i + 15 * kSums < n; i += 16 * kSums) {
#pragma unroll
      for (int64_t j = 0; j < 16; ++j) sum = add(sum, i + j * kSums);  // they come together
    }
#pragma unroll 1
    for (; i < n; i += kSums) sum = add(sum, i);
    sums[s] = sum;
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
  return all;
}

}  // namespace infer::cuda
