// Sums over the lanes or threads before one.
#pragma once

#include "backends/cuda/device/math.h"

namespace infer::cuda {

/// The sum over the lanes up to this one.
INFER_DEVICE uint32_t warp_sum_up_to(uint32_t x) {
#pragma unroll
  for (uint32_t by = 1; by < 32; by *= 2) {
    const uint32_t before = shuffle(x, (lane() - by) % 32);
    if (lane() >= by) x += before;
  }
  return x;
}

/// The sum over the threads of the block before this one, and over all.
struct SumBefore {
  uint32_t before, all;
};
INFER_DEVICE SumBefore sum_before(uint32_t x) {
  INFER_SHARED(uint32_t, sums, 32);
  const uint32_t up_to = warp_sum_up_to(x);
  sync_block();  // the sums of an earlier call have been read
  if (lane() == 31) sums[warp()] = up_to;
  sync_block();
  SumBefore sum{up_to - x, 0};
  for (uint32_t w = 0; w < threads() / 32; ++w) {
    if (w < warp()) sum.before += sums[w];
    sum.all += sums[w];
  }
  return sum;
}

}  // namespace infer::cuda
