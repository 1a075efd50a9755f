// IQ1_S: engine/quant/iq1_s.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kPlane0 = 32;
  static constexpr uint32_t kPlane1 = 16;
  static constexpr uint32_t kPlane2 = 2;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

#include "backends/cuda/weights/iq.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const uint32_t high = half_word<1>(row, i);
  const uint32_t low = word_at<0>(row, i);
  const float scale = half_at<2>(row, i / 8) * static_cast<float>(2 * ((high >> 12) & 7) + 1);
  const float delta = (high & 0x8000u) != 0 ? -0.125f : 0.125f;
#pragma unroll
  for (uint32_t l = 0; l < 4; ++l) {
    const uint32_t index = ((low >> (8 * l)) & 255) | (((high >> (3 * l)) & 7) << 8);
    put_iq1(grid_entry(row, kIq1Grid, index), delta, scale, 8 * l, v);
  }
}

}  // namespace infer::cuda::INFER_TYPE
