// Gathers rows of x by index.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct SelectRowsParams {
  uint64_t step, x, indices, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  uint32_t unused;
};
static_assert(sizeof(SelectRowsParams) == 64);

}  // namespace infer::cuda
