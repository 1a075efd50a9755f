// The slopes of attention with linear biases.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/core/portable_math.h"

namespace infer {

/// ALiBi (Press et al. 2022): of H heads the first n, the largest power of two not above H, have
/// the slopes 2^(−8(h + 1)/n); the others have those of 2n heads with even h, from the first on.
inline float alibi_slope(int64_t head, int64_t heads) {
  const auto n = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const int64_t step = head < n ? 2 * (head + 1) : 2 * (head - n) + 1;
  return static_cast<float>(
      portable::exp2(-4.0 * static_cast<double>(step) / static_cast<double>(n)));
}

}  // namespace infer
