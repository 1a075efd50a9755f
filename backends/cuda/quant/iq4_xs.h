// IQ4_XS: engine/quant/iq4_xs.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kScaleBytes = 128;
  using Scales = uint4;  ///< two words of each row: d and the scales' upper bits, the lower bits
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return plane_part<uint4>(at[0], unit * kScaleBytes);
  }
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
    table_runs(row, iq4_levels(), q);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t tile, uint32_t h,
                                      float (&scale)[2], float (&)[2]) {
    const uint32_t first = h == 0 ? scales.x : scales.z;
    const uint32_t lows = h == 0 ? scales.y : scales.w;
    const float d = low_half(first);
#pragma unroll
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t j = tile * 2 + m;
      const uint32_t six = ((lows >> (4 * j)) & 15) | (((first >> (16 + 2 * j)) & 3) << 4);
      scale[m] = d * (float_of(0x4b000000u | six) - (kRaised + 32.0f));
    }
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
