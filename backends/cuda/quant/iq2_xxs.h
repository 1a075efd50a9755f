// IQ2_XXS: engine/quant/iq2_xxs.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kPlane0 = 64;
  static constexpr uint32_t kPlane1 = 2;
  static constexpr uint32_t kPlane2 = 0;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

#include "backends/cuda/weights/iq.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const uint32_t indices = word_at<0>(row, 2 * i);
  const uint32_t signs = word_at<0>(row, 2 * i + 1);
  const float scale = half_at<1>(row, i / 8) * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
#pragma unroll
  for (uint32_t l = 0; l < 4; ++l) {
    put_iq2(grid_entry(row, kIq2XxsGrid, (indices >> (8 * l)) & 255), iq_signs(signs >> (7 * l)),
            scale, 8 * l, v);
  }
}

}  // namespace infer::cuda::INFER_TYPE
