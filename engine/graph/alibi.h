// The slopes of attention with linear biases.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "engine/core/portable_math.h"

namespace infer {

/// Heads of all models but a few have slopes down to 2^−8.
inline constexpr float kUsualAlibi = 8.0f;

/// ALiBi (Press et al. 2022): of H heads the first n, the largest power of two not above H, have
/// the slopes 2^(−most·(h + 1)/n); the others have those of 2n heads with even h, from the first
/// on.
inline float alibi_slope(int64_t head, int64_t heads, float most) {
  const auto n = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const int64_t step = head < n ? 2 * (head + 1) : 2 * (head - n) + 1;
  return static_cast<float>(
      portable::exp2(-0.5 * most * static_cast<double>(step) / static_cast<double>(n)));
}

/// The slopes of all heads; none if `most` is 0.
inline std::vector<float> alibi_slopes(int64_t heads, float most, float factor = 1.0f) {
  std::vector<float> slopes;
  for (int64_t h = 0; most > 0 && h < heads; ++h) {
    slopes.push_back(factor * alibi_slope(h, heads, most));
  }
  return slopes;
}

}  // namespace infer
