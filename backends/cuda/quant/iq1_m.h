// IQ1_M: engine/quant/iq1_m.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kPlane0 = 32;
  static constexpr uint32_t kPlane1 = 16;
  static constexpr uint32_t kPlane2 = 8;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

#include "backends/cuda/weights/iq.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const uint32_t b = i / 8;
  const uint32_t first = word_at<2>(row, 2 * b);
  const uint32_t second = word_at<2>(row, 2 * b + 1);
  const uint32_t d_bits = ((first >> 12) & 15) | ((first >> 28) << 4) |
                          (((second >> 12) & 15) << 8) | ((second >> 28) << 12);
  const float d = half_of(d_bits);
  const uint32_t scales = half_word<2>(row, 4 * b + (i % 8) / 2);
  const uint32_t low = word_at<0>(row, i);
  const uint32_t highs = half_word<1>(row, i);
#pragma unroll
  for (uint32_t l = 0; l < 4; ++l) {
    const uint32_t s = (scales >> ((i % 2 * 4 + l) / 2 * 3)) & 7;
    const uint32_t high = highs >> (4 * l);
    const float delta = (high & 8) != 0 ? -0.125f : 0.125f;
    const uint32_t index = ((low >> (8 * l)) & 255) | ((high & 7) << 8);
    put_iq1(grid_entry(row, kIq1Grid, index), delta, d * static_cast<float>(2 * s + 1), 8 * l, v);
  }
}

}  // namespace infer::cuda::INFER_TYPE
