// x · weight of the expert, for each expert that a row uses.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct MoeSpreadParams {
  uint64_t step, x, weights, y;
  gpu::ShapePush shape;  ///< d1: the experts that a row uses
  gpu::StridePush x_strides, weight_strides;
  uint32_t unused;
};
static_assert(sizeof(MoeSpreadParams) == 72);

}  // namespace infer::cuda
