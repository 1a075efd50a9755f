// Shared by the quantisers: the weight of each value's error, and the search for the scale (or the
// scale and offset) with the least weighted squared error.
//
// For fixed levels the best scale is a least-squares solution; for a fixed scale the best levels
// are the nearest ones. Each search tries several scales around the one that spans the range. From
// the best of them it alternates between the two rules (Lloyd 1982).
//
// Values are in units of their block's largest, so that no sum overflows or vanishes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/quant/fit.h"

namespace infer {

using F4 = float __attribute__((vector_size(16)));

inline F4 load4(const float* p) {
  F4 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void store4(float* p, F4 v) { std::memcpy(p, &v, sizeof(v)); }
inline F4 splat4(float v) { return F4{v, v, v, v}; }
inline F4 min4(F4 a, F4 b) { return a < b ? a : b; }
inline F4 max4(F4 a, F4 b) { return a > b ? a : b; }
inline float sum4(F4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
/// The nearest whole numbers of values below 2^22 in magnitude, halves to even.
inline F4 round4(F4 v) {
  constexpr float kShift = 0x1.8p23f;  // here a float's last bit is worth one
  return (v + kShift) - kShift;
}

/// The factor by which the error of a value x counts, besides the importance of its column. `root`,
/// and always if the importance is known: √(2σ² + x²), where σ² is the mean of the block's squares.
/// `square`: σ²/2 + x². Large weights matter more than their share of the sum of squares, as
/// llama.cpp's quantisers have found. Types with symmetric levels need the stronger emphasis.
enum class Emphasis : uint8_t { root, square };

/// The values of a block and the weights of their errors.
template <int N>
struct SearchBlock {
  alignas(16) float x[N];  ///< in −1..1
  alignas(16) float w[N];  ///< ≥ 0, below 2
  float size = 0;          ///< the value that x = 1 stands for

  /// `importance`: of each value, ≥ 0, or null. False if all values vanish in a binary16 scale.
  bool set(const float* in, const float* importance, Emphasis emphasis) {
    limit_values(in, x, N);
    size = std::fabs(extreme_of(x, N));
    if (size < kVanishing) return false;
    const float inverse = 1 / size;
    float squares = 0;
    for (int i = 0; i < N; ++i) {
      x[i] *= inverse;
      squares += x[i] * x[i];
    }
    const float floor = 2 * squares / N;
    for (int i = 0; i < N; ++i) {
      const float square = x[i] * x[i];
      w[i] = emphasis == Emphasis::square ? floor / 4 + square : std::sqrt(floor + square);
    }
    if (importance == nullptr) return true;
    float most = 0;
    for (int i = 0; i < N; ++i) most = std::max(most, importance[i]);
    if (most <= 0) return true;  // nothing is known of these columns: as without
    // What was never used in the texts that were measured may be in others.
    constexpr float kLeast = 1e-5f;
    for (int i = 0; i < N; ++i) {
      w[i] = std::sqrt(floor + x[i] * x[i]) * std::max(importance[i] / most, kLeast);
    }
    return true;
  }
};

/// Whole levels.
template <int Low, int High>
struct UniformLevels {
  static constexpr float kEnds[2] = {Low, High};
  static F4 nearest(F4 v) {
    return round4(min4(max4(v, splat4(static_cast<float>(Low))), splat4(static_cast<float>(High))));
  }
};

/// Σwxq and Σwq² over values with levels q: the squared error with scale s is
/// Σwx² − gain(s), which s = best() makes least.
struct ScaleMoments {
  float xq = 0, qq = 0;
  float best() const { return qq > 0 ? xq / qq : 0; }
  float gain(float scale) const { return scale * (2 * xq - scale * qq); }
  float best_gain() const { return best() * xq; }
};

/// Of the levels nearest to x·inverse.
template <typename Levels, int N>
ScaleMoments scale_moments(const float* x, const float* w, float inverse) {
  F4 xq{};
  F4 qq{};
  for (int i = 0; i < N; i += 4) {
    const F4 xs = load4(x + i);
    const F4 q = Levels::nearest(xs * inverse);
    const F4 wq = load4(w + i) * q;
    xq += xs * wq;
    qq += q * wq;
  }
  return {sum4(xq), sum4(qq)};
}

/// The scale s for x ≈ s·q. It may be negative: the wider end of the levels serves the sign of the
/// largest value, or the other end does. `reach`: how far beyond and within its end the largest
/// value is put, in levels.
template <typename Levels, int N>
float search_scale(const float* x, const float* w, float reach, int trials) {
  const float extreme = extreme_of(x, N);
  if (std::fabs(extreme) < kVanishing) return 0;
  ScaleMoments best;
  const auto attempt = [&](float inverse) {
    const ScaleMoments m = scale_moments<Levels, N>(x, w, inverse);
    if (m.best_gain() > best.best_gain()) best = m;
  };
  for (const float end : Levels::kEnds) {
    for (int t = -trials; t <= trials; ++t) {
      attempt((end + reach * static_cast<float>(t) / static_cast<float>(trials)) / extreme);
    }
  }
  for (int i = 0; i < 2 && best.xq != 0; ++i) attempt(1 / best.best());
  return best.best();
}

/// Scale and offset, for x ≈ scale·q − min.
struct ScaleMin {
  float scale = 0, min = 0;
};

/// Sums over values with levels q, for x ≈ s·q − m.
struct AffineMoments {
  float q = 0, qq = 0, xq = 0;
};

/// Σw, Σwx: what does not depend on levels.
struct AffineSums {
  float w = 0, x = 0;

  /// The squared error is Σwx² − gain.
  float gain(const AffineMoments& a, ScaleMin f) const {
    return 2 * f.scale * a.xq - 2 * f.min * x - f.scale * f.scale * a.qq - f.min * f.min * w +
           2 * f.scale * f.min * a.q;
  }
  /// Of the least error with these levels and, unless `free_min`, min ≥ 0.
  ScaleMin best(const AffineMoments& a, bool free_min) const {
    const float determinant = w * a.qq - a.q * a.q;
    ScaleMin fit;
    if (determinant > 0) {
      fit = {(w * a.xq - a.q * x) / determinant, (a.q * a.xq - a.qq * x) / determinant};
    }
    if (determinant <= 0 || (fit.min < 0 && !free_min)) {
      fit = {a.qq > 0 ? a.xq / a.qq : 0, 0};
    }
    if (fit.scale < 0) fit.scale = 0;
    return fit;
  }
};

template <int N>
AffineSums affine_sums(const float* x, const float* w) {
  F4 ws{};
  F4 xs{};
  for (int i = 0; i < N; i += 4) {
    ws += load4(w + i);
    xs += load4(w + i) * load4(x + i);
  }
  return {sum4(ws), sum4(xs)};
}

/// Of the levels 0..High nearest to (x + min)·inverse.
template <int High, int N>
AffineMoments affine_moments(const float* x, const float* w, float min, float inverse) {
  F4 sum_q{};
  F4 qq{};
  F4 xq{};
  for (int i = 0; i < N; i += 4) {
    const F4 xs = load4(x + i);
    const F4 q = UniformLevels<0, High>::nearest((xs + min) * inverse);
    const F4 wq = load4(w + i) * q;
    sum_q += wq;
    qq += q * wq;
    xq += xs * wq;
  }
  return {sum4(sum_q), sum4(qq), sum4(xq)};
}

/// Scale ≥ 0 and offset for x ≈ scale·q − min with q in 0..High; min ≥ 0 unless `free_min`.
template <int High, int N>
ScaleMin search_scale_min(const float* x, const float* w, bool free_min) {
  float low = free_min ? x[0] : std::min(0.0f, x[0]);
  float high = x[0];
  for (int i = 0; i < N; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  if (high - low < kVanishing) return {0, -low};
  const AffineSums sums = affine_sums<N>(x, w);
  ScaleMin best{(high - low) / High, -low};
  float best_gain = -HUGE_VALF;
  const auto attempt = [&](ScaleMin from) {
    const AffineMoments a = affine_moments<High, N>(x, w, from.min, inverse_or_zero(from.scale));
    const ScaleMin fit = sums.best(a, free_min);
    const float gain = sums.gain(a, fit);
    if (gain > best_gain) {
      best_gain = gain;
      best = fit;
    }
  };
  // From the whole range to one cut on both sides: few levels gain most by that.
  constexpr int kTrials = 14;
  constexpr float kStep = High < 4 ? 0.1f : 0.18f;
  const float middle = (low + high) / 2;
  for (int t = 0; t < kTrials; ++t) {
    const float scale = (high - low) / (High - 0.6f + kStep * static_cast<float>(t));
    attempt({scale, -low});
    if (High < 4 || free_min) attempt({scale, High * scale / 2 - middle});
  }
  for (int i = 0; i < 4; ++i) attempt(best);
  return best;
}

}  // namespace infer
