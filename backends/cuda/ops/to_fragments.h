// The columns of activations of a product of prompts in float16, as tensor cores take them
// (weights/decoded_tile.cu): as they are, or normalised first.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/to_halves.h"

namespace infer::cuda {

inline constexpr int kToFragmentsThreads = 256;
inline constexpr int kToFragmentsLongThreads = 512;
/// Elements that a thread keeps between finding the largest one and rounding. Those of longer
/// columns are read again.
inline constexpr uint32_t kToFragmentsHeld = 32;

/// Weights are decoded to so many times their value, so that their scales, which codes that are
/// larger by a power of two make smaller, stay normal numbers of float16.
inline constexpr float kDecodedFactor = 8.0f;

/// Grid: columns. They are the rows of the step behind the generated ones.
struct ToFragmentsParams {
  uint64_t step, x;
  uint64_t norm;  ///< weight of the norm; 0: none
  /// Words: u32 [4, columns, 2, steps of 16 elements]: word t of part h is that of elements
  /// 4t + 2h and the next one of the step. Back: for weights times kDecodedFactor.
  ColumnHalves to;
  uint32_t stride;  ///< of columns, in floats
  uint32_t k;
  uint32_t steps;    ///< a multiple of 4; elements from k on are zeros
  uint32_t normed;   ///< 1: x is normalised first
  uint32_t aligned;  ///< 1: columns begin at multiples of 16 bytes
  float eps;         ///< of the norm
};
static_assert(sizeof(ToFragmentsParams) == 72);

}  // namespace infer::cuda
