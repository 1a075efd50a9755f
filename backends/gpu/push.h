// What kernels get of the tensors of a node. Host and device code both include this.
#pragma once

#include <cstdint>

namespace infer::gpu {

/// The shape of a result [d0, d1, rows].
struct ShapePush {
  uint32_t d0 = 0;
  uint32_t d1 = 0;
  uint32_t stride1 = 0;  ///< floats
  uint32_t stride2 = 0;
  uint32_t rows = 0;  ///< which count of the step: 0 tokens, 1 outputs
};
static_assert(sizeof(ShapePush) == 20);

/// Strides [1] and [2] of an operand, in floats; 0 along a dimension of one.
struct StridePush {
  uint32_t stride1 = 0;
  uint32_t stride2 = 0;
};
static_assert(sizeof(StridePush) == 8);

}  // namespace infer::gpu
