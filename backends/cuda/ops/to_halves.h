// The columns of activations of a product of prompts as numbers of 16 bits (weights/half_tile.cu).
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kToHalvesThreads = 256;
inline constexpr uint32_t kHalfParts = 2;

/// Where the columns are, by unit of 8 elements of K.
struct ColumnHalves {
  uint64_t words;    ///< u16 [8, columns, kHalfParts, units]: a number is the sum of its parts
  uint64_t back;     ///< f32 [columns]: what sums have to be multiplied with
  uint32_t columns;  ///< all that there is room for
  uint32_t unused;
};
static_assert(sizeof(ColumnHalves) == 24);

/// Grid: columns. They are the rows of the step behind the generated ones.
struct ToHalvesParams {
  uint64_t step, x;
  ColumnHalves to;
  uint32_t stride;  ///< of columns, in floats
  uint32_t k;
  uint32_t units;    ///< a multiple of 4; elements from k on are zeros
  uint32_t brains;   ///< 1: bfloat16, 0: float16
  uint32_t aligned;  ///< 1: columns begin at multiples of 16 bytes
  uint32_t unused;
};
static_assert(sizeof(ToHalvesParams) == 64);

}  // namespace infer::cuda
