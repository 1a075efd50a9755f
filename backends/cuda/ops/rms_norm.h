// x / √(mean(x²) + eps), multiplied with a weight: a block for each row of d0.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kNormThreads = 256;

struct RmsNormParams {
  uint64_t step, x, weight, y;  ///< weight 0: none
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  float eps;
};
static_assert(sizeof(RmsNormParams) == 64);

}  // namespace infer::cuda
