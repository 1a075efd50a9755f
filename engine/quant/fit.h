// What the encoders share: rounding, limits, and the search for a scale (and an offset) that
// quantises a few values with the least squared error.
//
// For fixed levels q the best scale is a least-squares solution, and for a fixed scale the best
// levels are the nearest ones. The search tries a handful of first scales around the one that spans
// the range, and keeps the solution with the smallest error.
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

/// The scale s for x ≈ s·q with whole q in low..high, low < 0. It may be negative: the wider side
/// of the range serves the sign of the largest value. `trials` first scales are tried to either
/// side.
template <int N>
float fit_scale(const float* x, int low, int high, int trials = 3) {
  const float extreme = extreme_of(x, N);
  if (std::fabs(extreme) < kVanishing) return 0;
  float best_scale = 0;
  float best_gain = 0;  // the squared error is Σx² − gain
  for (int trial = -trials; trial <= trials; ++trial) {
    const float inverse =
        (static_cast<float>(low) + 0.3f * static_cast<float>(trial) / static_cast<float>(trials)) /
        extreme;
    float xq = 0;
    float qq = 0;
    for (int i = 0; i < N; ++i) {
      const auto q = static_cast<float>(round_to_level(x[i] * inverse, low, high));
      xq += x[i] * q;
      qq += q * q;
    }
    if (qq > 0 && xq * xq > best_gain * qq) {
      best_gain = xq * xq / qq;
      best_scale = xq / qq;
    }
  }
  return best_scale;
}

struct ScaleMin {
  float scale;
  float min;
};

/// Scale and offset, both ≥ 0, for x ≈ scale·q − min with q in 0..levels.
template <int N>
ScaleMin fit_scale_min(const float* x, int levels) {
  float low = 0;
  float high = x[0];
  float sum = 0;
  float sum_squares = 0;
  for (int i = 0; i < N; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    sum += x[i];
    sum_squares += x[i] * x[i];
  }
  if (high - low < kVanishing) return {0, -low};
  constexpr int kTrials = 8;
  ScaleMin best{std::max(high - low, 0.0f) / static_cast<float>(levels), -low};
  float best_error = HUGE_VALF;
  for (int trial = 0; trial < kTrials; ++trial) {
    const float inverse =
        (static_cast<float>(levels) - 0.5f + 0.15f * static_cast<float>(trial)) / (high - low);
    float q_sum = 0;
    float q_squares = 0;
    float xq = 0;
    for (int i = 0; i < N; ++i) {
      const auto q = static_cast<float>(round_to_level((x[i] - low) * inverse, 0, levels));
      q_sum += q;
      q_squares += q * q;
      xq += x[i] * q;
    }
    const float determinant = static_cast<float>(N) * q_squares - q_sum * q_sum;
    if (determinant <= 0) continue;
    float scale = (static_cast<float>(N) * xq - q_sum * sum) / determinant;
    float min = (q_sum * xq - q_squares * sum) / determinant;
    if (min < 0) {
      min = 0;
      scale = xq / q_squares;
    }
    const float error = sum_squares + scale * scale * q_squares +
                        static_cast<float>(N) * min * min - 2 * scale * xq + 2 * min * sum -
                        2 * scale * min * q_sum;
    if (scale > 0 && error < best_error) {
      best_error = error;
      best = {scale, min};
    }
  }
  return best;
}

}  // namespace infer
