// Q5_K: engine/quant/q5_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kTiles = 4;
  static constexpr bool kBits = true;
  static constexpr bool kUnsigned = true;
  static constexpr bool kLeast = true;
  static constexpr uint32_t kScaleBytes = 256;
  using Scales = TwoHeads;
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return two_heads(at[0], unit);
  }
  template <typename Plane>
  INFER_DEVICE static Scales load_row_scales(const Plane* at, uint32_t unit, uint32_t h) {
    return head_of_row(at[0], unit, h);
  }
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
