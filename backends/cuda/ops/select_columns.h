// Gathers elements of d0 by index; an index outside of them gives NaN.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct SelectColumnsParams {
  uint64_t step, x, indices, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  int32_t width;  ///< of x
};
static_assert(sizeof(SelectColumnsParams) == 64);

}  // namespace infer::cuda
