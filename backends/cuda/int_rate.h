// Parameters of int_rate.cu.
#pragma once

#include <cstdint>

namespace infer::cuda {

struct IntRateParams {
  uint64_t y;       ///< address of int32 for each thread
  uint32_t rounds;  ///< of kIntRateChains products of four bytes each
  uint32_t unused;
};
static_assert(sizeof(IntRateParams) == 16);

inline constexpr int kIntRateChains = 8;
inline constexpr int kIntRateThreads = 128;  ///< of a block

}  // namespace infer::cuda
