// Q5_1: engine/quant/q5_1.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : HalfPairsType {
  static constexpr bool kBits = true;
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
    fives(row, q);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&least)[2]) {
    half_pairs(scales, h, scale, least);
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
