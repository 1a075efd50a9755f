// x with the root mean square of another value along d0: a block for each row of d0.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kMatchMagnitudeThreads = 256;

struct MatchMagnitudeParams {
  uint64_t step, x, like, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides, like_strides;
  float floor;  ///< of the mean square of x
};
static_assert(sizeof(MatchMagnitudeParams) == 72);

}  // namespace infer::cuda
