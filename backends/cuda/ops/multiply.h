// x · weight, element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct MultiplyParams {
  uint64_t step, x, weight, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  uint32_t unused;
};
static_assert(sizeof(MultiplyParams) == 64);

}  // namespace infer::cuda
