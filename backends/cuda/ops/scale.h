// op::Scale, element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct ScaleParams {
  uint64_t step, x, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  float factor, least, most;
};
static_assert(sizeof(ScaleParams) == 64);

}  // namespace infer::cuda
