// MXFP4: engine/quant/mxfp4.h.
// kernels: column product stream tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : OrdinaryType {
  static constexpr uint32_t kScaleBytes = 32;
  using Scales = uint32_t;  ///< exponents of both runs of each row
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return plane_part<uint32_t>(at[0], unit * kScaleBytes);
  }
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
    table_runs(row, fp4_levels(), q);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
#pragma unroll
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t e = (scales >> (16 * h + 8 * m)) & 255;
      scale[m] = float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
