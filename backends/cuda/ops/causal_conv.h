// The causal convolution of recurrent layers.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kConvThreads = 64;
/// Tokens that the kernels see; a convolution that sees fewer has weights of zero for the earliest,
/// and for those between taps that lie apart.
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
  uint32_t dilation;
  uint32_t unused;
};
static_assert(sizeof(CausalConvParams) == 96);

}  // namespace infer::cuda
