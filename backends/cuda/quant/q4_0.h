// Q4_0: engine/quant/q4_0.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : HalfScalesType {
  static constexpr float kUnit = 1.0f / 16;
  /// Codes are packed less 8, as four bits of two's complement: here in the upper half of the
  /// bytes.
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
      q[j] = (row.word[j] << 4) & 0xf0f0f0f0u;
      q[2 + j] = row.word[j] & 0xf0f0f0f0u;
    }
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
