// What the encoders share: rounding and limits.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/quant/quant.h"

namespace infer {

/// The nearest whole number within bounds; any finite or infinite x.
inline int round_to_level(float x, int low, int high) {
  return static_cast<int>(
      std::lrintf(std::clamp(x, static_cast<float>(low), static_cast<float>(high))));
}

/// binary16 bits of the nearest value, limited to the largest finite one.
inline uint16_t f32_to_f16_finite(float x) {
  return f32_to_f16(std::clamp(x, -65504.0f, 65504.0f));
}

/// 1/x, or 0 for 0: scales that vanish give all-zero levels.
inline float inverse_or_zero(float x) { return x != 0 ? 1 / x : 0; }

/// The value of largest magnitude, with its sign.
inline float extreme_of(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

/// Copies values, limited so that no sum of squares over a block overflows. What the block types
/// with a binary16 scale can hold lies far inside the limit.
inline void limit_values(const float* in, float* out, int n) {
  constexpr float kLimit = 1e10f;
  for (int i = 0; i < n; ++i) out[i] = std::clamp(in[i], -kLimit, kLimit);
}

/// Below this, a binary16 scale is zero whatever the type.
inline constexpr float kVanishing = 1e-12f;

}  // namespace infer
