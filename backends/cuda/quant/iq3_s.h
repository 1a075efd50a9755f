// IQ3_S: engine/quant/iq3_s.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kPlane0 = 64;
  static constexpr uint32_t kPlane1 = 32;
  static constexpr uint32_t kPlane2 = 8;
  static constexpr uint32_t kPlane3 = 4;
  static constexpr uint32_t kPlane4 = 2;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

#include "backends/cuda/weights/iq.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const uint32_t s = (byte_at<3>(row, i / 2) >> (i % 2 * 4)) & 15;
  const float scale = half_at<4>(row, i / 8) * static_cast<float>(1 + 2 * s);
  const uint32_t high = byte_at<2>(row, i);
  const uint32_t all_signs = word_at<1>(row, i);
  const uint2 low{word_at<0>(row, 2 * i), word_at<0>(row, 2 * i + 1)};
#pragma unroll
  for (uint32_t l = 0; l < 8; ++l) {
    const uint32_t index =
        ((part_of(low, l / 4) >> (8 * (l % 4))) & 255) | (((high >> l) & 1) << 8);
    const uint32_t signs = all_signs >> (4 * l);
    const uint32_t entry = grid_entry(row, kIq3SGrid, index);
#pragma unroll
    for (uint32_t t = 0; t < 4; ++t) {
      v[4 * l + t] =
          with_sign(scale * static_cast<float>(iq3_s_level((entry >> (4 * t)) & 7)), signs, t);
    }
  }
}

}  // namespace infer::cuda::INFER_TYPE
