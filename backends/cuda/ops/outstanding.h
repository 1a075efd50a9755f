// max(0, x − mean(x) − factor · deviation(x)) along d0: a block for each row of d0.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kOutstandingThreads = 256;

struct OutstandingParams {
  uint64_t step, x, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  float factor;
};
static_assert(sizeof(OutstandingParams) == 56);

}  // namespace infer::cuda
