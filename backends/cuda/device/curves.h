// Functions that few kernels use.
#pragma once

#include "backends/cuda/device/math.h"

namespace infer::cuda {

/// log(1 + e^x) = max(x, 0) + log(1 + t) with t = e^−|x|. log(1 + t) = 2·artanh(t / (2 + t)), and
/// the series of artanh(s) (to s^15 / 15: below 2^-28 of it, since s ≤ 1/3).
INFER_DEVICE float softplus_of(float x) {
  const float t = exp_of(-magnitude_of(x));
  const float s = t / (2.0f + t);
  const float q = s * s;
  float p = 1.0f / 15.0f;
  p = fused(p, q, 1.0f / 13.0f);
  p = fused(p, q, 1.0f / 11.0f);
  p = fused(p, q, 1.0f / 9.0f);
  p = fused(p, q, 1.0f / 7.0f);
  p = fused(p, q, 1.0f / 5.0f);
  p = fused(p, q, 1.0f / 3.0f);
  p = fused(p, q, 1.0f);
  return is_nan(x) ? x : fused(2.0f * s, p, most_of(x, 0.0f));
}

/// x·Φ(x) = max(x, 0) − |x|·Φ(−|x|). The tail is Φ(−a) = e^(−a²/2)·t·p(t) with t = 1/(1 + 0.35·a);
/// p is the Chebyshev fit of degree 8 for 0 ≤ a ≤ 13.5, within 4·10⁻⁸ of it (relative).
INFER_DEVICE float gelu_of(float x) {
  const float a = magnitude_of(x);
  const float t = 1.0f / fused(a, 0.35f, 1.0f);
  float p = -0.028900336f;
  p = fused(p, t, 0.14286495f);
  p = fused(p, t, -0.25362146f);
  p = fused(p, t, 0.15701607f);
  p = fused(p, t, -0.021789605f);
  p = fused(p, t, 0.10501996f);
  p = fused(p, t, 0.11993886f);
  p = fused(p, t, 0.13984953f);
  p = fused(p, t, 0.13962199f);
  const float tail = exp_of(-0.5f * a * a) * t * p;
  return a > 1e18f ? most_of(x, 0.0f) : most_of(x, 0.0f) - a * tail;
}

}  // namespace infer::cuda
