// The Walsh–Hadamard transform of runs of d0: a block for each row of d0, in shared memory.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kHadamardThreads = 128;

/// Dynamic shared memory: a row.
struct HadamardParams {
  uint64_t step, x, y;
  gpu::ShapePush shape;
  gpu::StridePush x_strides;
  uint32_t block;
  float factor;  ///< 1 / √block
  uint32_t unused;
};
static_assert(sizeof(HadamardParams) == 64);

}  // namespace infer::cuda
