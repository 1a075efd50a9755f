// The range of a column's numbers in float16, by all threads of a block.
#pragma once

#include "backends/cuda/device/reduce.h"

namespace infer::cuda {

/// A power of two that puts a column's largest element into [2^13, 2^14), and its inverse.
struct HalfRange {
  float factor, back;
};

/// `most`: the largest magnitude of what the thread has seen of the column.
template <uint32_t kWarps>
INFER_DEVICE HalfRange half_range(float most) {
  INFER_SHARED(float, mosts, kWarps);
  most = warp_max(most);
  if (lane() == 0) mosts[warp()] = most;
  sync_block();
  for (uint32_t w = 0; w < kWarps; ++w) most = most_of(most, mosts[w]);
  // 2^(13 − exponent) and its inverse, both normal numbers.
  uint32_t exponent = bits_of(most) >> 23;
  exponent = exponent < 15 ? 15 : exponent > 253 ? 253 : exponent;
  return {float_of((127 + 13 + 127 - exponent) << 23), float_of((exponent - 13) << 23)};
}

}  // namespace infer::cuda
