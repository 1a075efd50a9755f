// Q8_0: engine/quant/q8_0.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kWords = 4;
  static constexpr uint32_t kScaleBytes = 64;
  using Scales = uint2;  ///< two float16 of each row
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return plane_part<uint2>(at[0], unit * kScaleBytes);
  }
  INFER_DEVICE static void codes(const RowWords<4>& row, uint32_t, uint32_t (&q)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) q[i] = row.word[i];
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
    half_scales(scales, h, scale);
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
