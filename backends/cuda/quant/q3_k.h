// Q3_K: engine/quant/q3_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kWords = 1;
  static constexpr bool kBits = true;
  static constexpr uint32_t kRun = 16;
  static constexpr float kUnit = 1.0f / 32;
  static constexpr uint32_t kScaleBytes = 192;
  static constexpr uint32_t kMoreScaleBytes = 32;
  struct Scales {
    uint2 words[3];
    uint32_t d;
  };
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return {{plane_part<uint2>(at[0], unit * kScaleBytes),
             plane_part<uint2>(at[0], unit * kScaleBytes + 8),
             plane_part<uint2>(at[0], unit * kScaleBytes + 16)},
            plane_part<uint32_t>(at[1], unit * kMoreScaleBytes)};
  }
  /// Less 4, 32 times: the third bit is packed turned over, as a sign.
  INFER_DEVICE static void codes(const RowWords<1>& row, uint32_t, uint32_t (&q)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t two = i < 3 ? row.word[0] << (5 - 2 * i) : row.word[0] >> 1;
      q[i] = (two & 0x60606060u) | bit_of_bytes(row.bits, i, 7);
    }
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t tile, uint32_t h,
                                      float (&scale)[4], float (&)[4]) {
    const float d = half_of(h == 0 ? scales.d & 0xffffu : scales.d >> 16);
    const uint32_t lows[2] = {part_of(scales.words[0], h), part_of(scales.words[1], h)};
    const uint32_t low = (tile % 2 == 0 ? lows[0] : lows[1]) >> (tile / 2 * 4);
    const uint32_t high = part_of(scales.words[2], h) >> (tile * 2);
    const uint32_t all = (low & 0x0f0f0f0fu) | ((high << 4) & 0x30303030u);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) scale[i] = d * (raised_byte(all, i) - (kRaised + 32.0f));
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
