// Rotary positions: pairs of elements turned by the angles of a table.
#pragma once

#include <cstdint>

namespace infer::cpu {
namespace {

void rope(float* y, const float* x, const float* turn, int64_t pairs, bool interleaved) {
  if (interleaved) {
    for (int64_t p = 0; p < pairs; ++p) {
      y[2 * p] = x[2 * p] * turn[2 * p] - x[2 * p + 1] * turn[2 * p + 1];
      y[2 * p + 1] = x[2 * p] * turn[2 * p + 1] + x[2 * p + 1] * turn[2 * p];
    }
  } else {
    for (int64_t p = 0; p < pairs; ++p) {
      y[p] = x[p] * turn[2 * p] - x[p + pairs] * turn[2 * p + 1];
      y[p + pairs] = x[p] * turn[2 * p + 1] + x[p + pairs] * turn[2 * p];
    }
  }
}

}  // namespace
}  // namespace infer::cpu
