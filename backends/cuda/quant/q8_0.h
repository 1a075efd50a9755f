// Q8_0: engine/quant/q8_0.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : HalfScalesType {
  static constexpr uint32_t kWords = 4;
  INFER_DEVICE static void codes(const RowWords<4>& row, uint32_t, uint32_t (&q)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) q[i] = row.word[i];
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
