// FP4 of bitsandbytes: 64 weights, the largest magnitude in float32 and the levels of a 4-bit
// float, sign in the highest bit, relative to the largest (absmax_block.h). No number of GGUF's:
// files of that format cannot hold it.
#pragma once

#include "engine/quant/absmax_block.h"

namespace infer {

struct Fp4Levels {
  static constexpr float kValues[16] = {
      0,     0.0625f / 12,  8.0f / 12,  1.0f,  4.0f / 12,  6.0f / 12,  2.0f / 12,  3.0f / 12,
      -0.0f, -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -6.0f / 12, -2.0f / 12, -3.0f / 12};
  static constexpr int kAscending[16] = {11, 10, 13, 12, 15, 14, 9, 8, 0, 1, 6, 7, 4, 5, 2, 3};
};

template <>
struct Codec<DType::fp4> : AbsmaxCodec<Fp4Levels> {};

}  // namespace infer
