// Parameters of int_rate.cu, matrix_rate.cu and warpgroup_rate.cu.
#pragma once

#include <cstdint>

namespace infer::cuda {

struct RateParams {
  uint64_t y;       ///< address of 4 bytes for each thread
  uint32_t rounds;  ///< of a thread's or a warp's chains, which do not depend on each other
  uint32_t unused;
};
static_assert(sizeof(RateParams) == 16);

inline constexpr int kRateThreads = 128;  ///< of a block
inline constexpr int kIntRateChains = 8;
inline constexpr int kMatrixRateChains = 8;
inline constexpr int kWarpgroupRateChains = 4;
inline constexpr int kWarpgroupRateColumns = 128;

}  // namespace infer::cuda
