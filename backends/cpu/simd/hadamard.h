// The Walsh–Hadamard transform of a row.
#pragma once

#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

/// Row j of the Hadamard matrix of kLanes rows.
struct HadamardSigns {
  float row[kLanes][kLanes];
};

constexpr HadamardSigns hadamard_signs() {
  HadamardSigns signs{};
  for (int j = 0; j < kLanes; ++j) {
    for (int i = 0; i < kLanes; ++i) signs.row[j][i] = __builtin_parity(i & j) == 0 ? 1.0f : -1.0f;
  }
  return signs;
}

constexpr HadamardSigns kHadamardSigns = hadamard_signs();

/// y[i] and y[i + half] become their sum and difference, for 0 ≤ i < half of every 2·half.
void butterflies(float* y, int64_t half, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += 2 * half) {
    for (int64_t i = begin; i < begin + half; i += kW) {
      const F a = F::load(y + i);
      const F b = F::load(y + i + half);
      (a + b).store(y + i);
      (a - b).store(y + i + half);
    }
  }
}

/// H of order n is the Kronecker product of H of order n / kLanes, which whole vectors pass through
/// in the fast way, and of H of order kLanes within each kLanes elements: a product with a matrix
/// of signs, so that no lane has to change its place.
void hadamard(float* y, const float* x, float scale, int64_t n) {
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += kHadamardSigns.row[j][i] * x[j];
      y[i] = sum * scale;
    }
    return;
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    Lanes sums[2] = {Lanes::zero(), Lanes::zero()};
    for (int j = 0; j < kLanes; j += 2) {
      for (int s = 0; s < 2; ++s) {
        const F element = F::set(x[i + j + s] * scale);
        for (int p = 0; p < kParts; ++p) {
          const F sign = F::load(kHadamardSigns.row[j + s] + p * kW);
          sums[s].part[p] = fma(element, sign, sums[s].part[p]);
        }
      }
    }
    for (int p = 0; p < kParts; ++p) (sums[0].part[p] + sums[1].part[p]).store(y + i + p * kW);
  }
  for (int64_t half = kLanes; half < n; half *= 2) butterflies(y, half, n);
}

}  // namespace
}  // namespace infer::cpu
