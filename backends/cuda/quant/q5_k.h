// Q5_K: engine/quant/q5_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : HeadsType {
  static constexpr bool kBits = true;
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
    fives(row, q);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t tile, uint32_t h,
                                      float (&scale)[2], float (&least)[2]) {
    k_scales_of(scales.of_row(h), tile, 1.0f, scale, least);
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
