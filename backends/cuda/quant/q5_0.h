// Q5_0: engine/quant/q5_0.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : HalfScalesType {
  static constexpr bool kBits = true;
  static constexpr float kUnit = 1.0f / 8;
  /// Less 16, eight times: the fifth bit turned over is the sign.
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
    const uint32_t bits = ~row.bits;
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
      q[j] = ((row.word[j] << 3) & 0x78787878u) | bit_of_bytes(bits, j, 7);
      q[2 + j] = ((row.word[j] >> 1) & 0x78787878u) | bit_of_bytes(bits, 2 + j, 7);
    }
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
