// How streams meet a part of a layer: a block computes a row, a thread an element of its matrix.
#pragma once

#include <cstdint>

namespace infer::cuda {

inline constexpr int kStreamGateThreads = 64;  ///< as many as elements of the largest matrix

struct StreamGatesParams {
  uint64_t step, x, scale, base, taken, given, mix;
  uint32_t rows;  ///< gpu::StepRows
  uint32_t x_stride, taken_stride, given_stride, mix_stride;
  uint32_t streams, iterations;
  float eps;
};
static_assert(sizeof(StreamGatesParams) == 88);

}  // namespace infer::cuda
