// (x − mean(x)) / √(mean((x − mean(x))²) + eps), multiplied with a weight and plus a bias where
// they are given: a block for each row of d0.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kLayerNormThreads = 256;

struct LayerNormParams {
  uint64_t step, x, weight, bias, y;  // weight, bias: 0 if there is none
  gpu::ShapePush shape;
  gpu::StridePush x_strides, weight_strides;
  float eps;
};
static_assert(sizeof(LayerNormParams) == 80);

}  // namespace infer::cuda
