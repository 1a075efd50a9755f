// NVFP4: engine/quant/nvfp4.h.
// kernels: column product stream tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kRun = 16;
  static constexpr uint32_t kScaleBytes = 64;
  using Scales = uint2;  ///< four bytes of each row
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return plane_part<uint2>(at[0], unit * kScaleBytes);
  }
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
    table_runs(row, fp4_levels(), q);
  }
  /// Half of the scale, as the levels are doubled. The pattern of NaN stands for zero.
  INFER_DEVICE static float half_scale(uint32_t bits) {
    if ((bits & 127) == 127) return 0;
    const uint32_t exponent = (bits >> 3) & 15;
    const float mantissa = static_cast<float>(bits & 7);
    if (exponent == 0) return mantissa * (1.0f / 1024.0f);
    return (1.0f + mantissa / 8.0f) * float_of((exponent + 119) << 23);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t, uint32_t h, float (&scale)[4],
                                      float (&)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      scale[i] = half_scale((part_of(scales, h) >> (i * 8)) & 255);
    }
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
