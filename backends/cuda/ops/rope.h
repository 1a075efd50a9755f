// Rotary position embedding, element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct RopeParams {
  uint64_t step, x, table, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides, table_strides;
  uint32_t pairs;
  uint32_t style;  ///< op::Rope::Style
  uint32_t unused;
};
static_assert(sizeof(RopeParams) == 80);

}  // namespace infer::cuda
