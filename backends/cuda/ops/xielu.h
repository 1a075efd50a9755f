// The activation of op::Xielu, element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct XieluParams {
  uint64_t step, x, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  float positive, negative, beta, eps;  ///< op::Xielu
  uint32_t unused;
};
static_assert(sizeof(XieluParams) == 72);

}  // namespace infer::cuda
