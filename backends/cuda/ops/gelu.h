// op::Gelu, element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

/// Of op::Gelu::Kind, by their values. The second is also op::Glu's.
enum GeluKind : uint32_t { kGeluExact = 0, kGeluTanh = 1 };

struct GeluParams {
  uint64_t step, x, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  uint32_t kind;  ///< op::Gelu::Kind
};
static_assert(sizeof(GeluParams) == 56);

}  // namespace infer::cuda
