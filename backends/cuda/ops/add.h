// a + scale · b, element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct AddParams {
  uint64_t step, a, b, y;
  gpu::ShapePush shape;
  gpu::StridePush a_strides, b_strides;
  float scale;
};
static_assert(sizeof(AddParams) == 72);

}  // namespace infer::cuda
