// x·Φ(x), element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct GeluParams {
  uint64_t step, x, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  uint32_t unused;
};
static_assert(sizeof(GeluParams) == 56);

}  // namespace infer::cuda
