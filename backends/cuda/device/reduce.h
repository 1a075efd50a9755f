// Sums and maxima over a block of 64 threads. All threads get the result.
#pragma once

#include "backends/cuda/device/math.h"

namespace infer::cuda {

inline constexpr int kReduceThreads = 64;

INFER_DEVICE float warp_sum(float x) {
  for (uint32_t other = 16; other > 0; other /= 2) x = x + shuffle_xor(x, other);
  return x;
}
INFER_DEVICE float warp_max(float x) {
  for (uint32_t other = 16; other > 0; other /= 2) x = most_of(x, shuffle_xor(x, other));
  return x;
}

INFER_DEVICE float block_sum(float x) {
  INFER_SHARED(float, parts, 2);
  x = warp_sum(x);
  sync_block();  // the parts of an earlier call have been read
  if (lane() == 0) parts[warp()] = x;
  sync_block();
  return parts[0] + parts[1];
}
INFER_DEVICE float block_max(float x) {
  INFER_SHARED(float, parts, 2);
  x = warp_max(x);
  sync_block();
  if (lane() == 0) parts[warp()] = x;
  sync_block();
  return most_of(parts[0], parts[1]);
}

}  // namespace infer::cuda
