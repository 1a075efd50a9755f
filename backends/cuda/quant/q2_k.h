// Q2_K: engine/quant/q2_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kWords = 1;
  static constexpr uint32_t kRun = 16;
  static constexpr bool kUnsigned = true;
  static constexpr bool kLeast = true;
  static constexpr uint32_t kScaleBytes = 256;
  static constexpr uint32_t kMoreScaleBytes = 64;
  struct Scales {
    TwoHeads heads;
    uint2 d;
  };
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return {two_heads(at[0], unit), plane_part<uint2>(at[1], unit * kMoreScaleBytes)};
  }
  template <typename Plane>
  INFER_DEVICE static Scales load_row_scales(const Plane* at, uint32_t unit, uint32_t h) {
    return {head_of_row(at[0], unit, h), plane_part<uint2>(at[1], unit * kMoreScaleBytes)};
  }
  INFER_DEVICE static void codes(const RowWords<1>& row, uint32_t, uint32_t (&q)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) q[i] = (row.word[0] >> (2 * i)) & 0x03030303u;
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t tile, uint32_t h,
                                      float (&scale)[4], float (&least)[4]) {
    const float d = low_half(part_of(scales.d, h));
    const float dmin = high_half(part_of(scales.d, h));
    const uint32_t word = part_of(scales.heads.of_row(h), tile);
    const uint32_t low = word & 0x0f0f0f0fu;
    const uint32_t high = (word >> 4) & 0x0f0f0f0fu;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      scale[i] = fused(raised_byte(low, i), d, -kRaised * d);
      least[i] = fused(raised_byte(high, i), dmin, -kRaised * dmin);
    }
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
