// Joins a and b along d0.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct ConcatParams {
  uint64_t step, a, b, y;
  gpu::ShapePush shape;
  gpu::StridePush a_strides, b_strides;
  uint32_t width;  ///< of a
};
static_assert(sizeof(ConcatParams) == 72);

}  // namespace infer::cuda
