// cap · tanh(x / cap), element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct SoftcapParams {
  uint64_t step, x, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  float cap;
};
static_assert(sizeof(SoftcapParams) == 56);

}  // namespace infer::cuda
