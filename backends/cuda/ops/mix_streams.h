// The mix of streams, and what each gets of a part.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

struct MixStreamsParams {
  uint64_t step, x, mix, h, shares, y;
  gpu::ShapePush shape;  ///< d1: the streams
  gpu::StridePush x_strides;
  uint32_t mix_stride, h_stride, shares_stride;  ///< of rows
};
static_assert(sizeof(MixStreamsParams) == 88);

}  // namespace infer::cuda
