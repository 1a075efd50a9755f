// IQ2_S: engine/quant/iq2_s.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kPlane0 = 32;
  static constexpr uint32_t kPlane1 = 32;
  static constexpr uint32_t kPlane2 = 8;
  static constexpr uint32_t kPlane3 = 8;
  static constexpr uint32_t kPlane4 = 2;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

#include "backends/cuda/weights/iq.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const uint32_t s = byte_at<3>(row, i);
  const uint32_t high = byte_at<2>(row, i);
  const uint32_t low = word_at<0>(row, i);
  const uint32_t signs = word_at<1>(row, i);
  const float d = half_at<4>(row, i / 8);
#pragma unroll
  for (uint32_t l = 0; l < 4; ++l) {
    const float scale = d * (0.5f + static_cast<float>((s >> (l / 2 * 4)) & 15)) * 0.25f;
    const uint32_t index = ((low >> (8 * l)) & 255) | (((high >> (2 * l)) & 3) << 8);
    put_iq2(grid_entry(row, kIq2SGrid, index), (signs >> (8 * l)) & 255, scale, 8 * l, v);
  }
}

}  // namespace infer::cuda::INFER_TYPE
