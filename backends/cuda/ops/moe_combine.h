// The sum of the experts' results with their weights, in the order of the experts.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct MoeCombineParams {
  uint64_t step, x, weights, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides, weight_strides;
  uint32_t used;
};
static_assert(sizeof(MoeCombineParams) == 72);

}  // namespace infer::cuda
