// Small pieces that several scalar references share.
#pragma once

#include <cstdint>

#include "engine/core/dtype.h"

namespace infer {

/// Σ a[i]·b[i] in double.
inline double dot_f64(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// What a product with weights of this type may differ by: back ends may round the activations that
/// meet quantised weights to 8 bits with a scale per 32 (about 3e-5 in normalised squared error).
inline double quantised_tolerance(DType type) { return is_quantised(type) ? 3e-4 : 1e-11; }

}  // namespace infer
