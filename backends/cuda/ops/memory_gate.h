// How far memories are let through: a block for each row of d0.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kMemoryGateThreads = 256;

/// Grid: 1, d1, rows.
struct MemoryGateParams {
  uint64_t step, q, k, y;
  gpu::ShapePush shape;  ///< of the result: d0 is what d1 is of q and k
  gpu::StridePush q_strides, k_strides;
  uint32_t width;
  float scale;
  uint32_t unused;
};
static_assert(sizeof(MemoryGateParams) == 80);

}  // namespace infer::cuda
