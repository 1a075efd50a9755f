// (x − mean(x)) / √(mean((x − mean(x))²) + eps), multiplied with a weight, plus a bias if there is
// one: a block for each row of d0.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kLayerNormThreads = 256;

struct LayerNormParams {
  uint64_t step, x, weight, bias, y;  // bias: 0 if there is none
  gpu::ShapePush shape;
  gpu::StridePush x_strides, weight_strides;
  float eps;
};
static_assert(sizeof(LayerNormParams) == 80);

}  // namespace infer::cuda
