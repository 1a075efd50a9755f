// Q6_K: engine/quant/q6_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kWords = 3;
  static constexpr uint32_t kRun = 16;
  static constexpr float kUnit = 1.0f / 4;
  static constexpr uint32_t kScaleBytes = 256;
  static constexpr uint32_t kMoreScaleBytes = 32;
  struct Scales {
    TwoHeads heads;
    uint32_t d;
  };
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return {two_heads(at[0], unit), plane_part<uint32_t>(at[1], unit * kMoreScaleBytes)};
  }
  template <typename Plane>
  INFER_DEVICE static Scales load_row_scales(const Plane* at, uint32_t unit, uint32_t h) {
    return {head_of_row(at[0], unit, h), plane_part<uint32_t>(at[1], unit * kMoreScaleBytes)};
  }
  /// Codes are packed less 32, as six bits of two's complement: here in the upper bits of the
  /// bytes.
  INFER_DEVICE static void codes(const RowWords<3>& row, uint32_t, uint32_t (&q)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) q[i] = row.word[i] & 0xfcfcfcfcu;
    q[3] = ((row.word[0] << 6) & 0xc0c0c0c0u) | ((row.word[1] << 4) & 0x30303030u) |
           ((row.word[2] << 2) & 0x0c0c0c0cu);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t tile, uint32_t h,
                                      float (&scale)[4], float (&)[4]) {
    const float d = half_of(h == 0 ? scales.d & 0xffffu : scales.d >> 16);
    const uint32_t word = part_of(scales.heads.of_row(h), tile);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) scale[i] = d * (raised_byte(word, i) - (kRaised + 128.0f));
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
