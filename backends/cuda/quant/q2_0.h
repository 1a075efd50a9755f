// Q2_0: engine/quant/q2_0.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 64;
  static constexpr uint32_t kPlane0 = 16;
  static constexpr uint32_t kPlane1 = 2;
  static constexpr uint32_t kPlane2 = 0;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const float d = half_at<1>(row, i / 2);
#pragma unroll
  for (uint32_t r = 0; r < 2; ++r) {
    const uint32_t q = word_at<0>(row, 2 * i + r);
#pragma unroll
    for (uint32_t t = 0; t < 16; ++t) {
      v[16 * r + t] = static_cast<float>(static_cast<int32_t>((q >> (2 * t)) & 3) - 1) * d;
    }
  }
}

}  // namespace infer::cuda::INFER_TYPE
