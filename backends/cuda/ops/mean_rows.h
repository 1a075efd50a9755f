// The mean of neighbouring rows of x.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct MeanRowsParams {
  uint64_t step, x, begins, ends, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  uint32_t unused;
};
static_assert(sizeof(MeanRowsParams) == 72);

}  // namespace infer::cuda
