// Scores and their places as numbers.
#pragma once

#include "backends/cuda/device/math.h"

namespace infer::cuda {

/// A place and its score in one number: the higher the score, and of equal ones the lower the
/// place, the larger. Above 0.
INFER_DEVICE uint64_t ranked(float score, uint32_t place) {
  const uint32_t bits = bits_of(score + 0.0f);  // −0 is 0
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | ~place;
}
INFER_DEVICE uint32_t place_of_ranked(uint64_t number) { return ~static_cast<uint32_t>(number); }

/// The largest of a warp's numbers; all lanes get it.
INFER_DEVICE uint64_t warp_max(uint64_t x) {
  for (uint32_t other = 16; other > 0; other /= 2) {
    const uint64_t high = shuffle_xor(static_cast<uint32_t>(x >> 32), other);
    const uint64_t y = high << 32 | shuffle_xor(static_cast<uint32_t>(x), other);
    x = y > x ? y : x;
  }
  return x;
}

}  // namespace infer::cuda
