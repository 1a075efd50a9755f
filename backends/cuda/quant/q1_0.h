// Q1_0: engine/quant/q1_0.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 128;
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
  const float d = half_at<1>(row, i / 4);
  const uint32_t q = word_at<0>(row, i);
#pragma unroll
  for (uint32_t t = 0; t < 32; ++t) v[t] = ((q >> t) & 1) != 0 ? d : -d;
}

}  // namespace infer::cuda::INFER_TYPE
