// IQ2_XS: engine/quant/iq2_xs.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kPlane0 = 64;
  static constexpr uint32_t kPlane1 = 8;
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
  const uint2 levels{word_at<0>(row, 2 * i), word_at<0>(row, 2 * i + 1)};
  const uint32_t s = byte_at<1>(row, i);
  const float d = half_at<2>(row, i / 8);
#pragma unroll
  for (uint32_t l = 0; l < 4; ++l) {
    const float scale = d * (0.5f + static_cast<float>((s >> (l / 2 * 4)) & 15)) * 0.25f;
    const uint32_t q = (part_of(levels, l / 2) >> (l % 2 * 16)) & 0xffffu;
    put_iq2(grid_entry(row, kIq2XsGrid, q & 511), iq_signs(q >> 9), scale, 8 * l, v);
  }
}

}  // namespace infer::cuda::INFER_TYPE
