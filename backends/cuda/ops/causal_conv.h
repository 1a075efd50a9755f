// The causal convolution of recurrent layers.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kConvThreads = 64;
/// Taps of the kernels; a convolution with fewer has weights of zero for the earliest.
inline constexpr int64_t kFewTaps = 4;

/// Grid: channels, 1, blocks that share the sequences.
struct CausalConvParams {
  uint64_t step, x, w, y, slots, sequences;
  uint64_t bias;  ///< 0: none
  uint32_t channels;
  uint32_t x_stride, y_stride;  ///< of rows
  uint32_t kind;                ///< of pages
  uint32_t offset;              ///< of the state, in bytes
  uint32_t taps;
  uint32_t silu;
  uint32_t sharing;  ///< blocks along z
};
static_assert(sizeof(CausalConvParams) == 88);

}  // namespace infer::cuda
