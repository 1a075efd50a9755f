// Q8_1: engine/quant/q8_1.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 32;
  static constexpr uint32_t kPlane0 = 32;
  static constexpr uint32_t kPlane1 = 4;
  static constexpr uint32_t kPlane2 = 0;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const float d = half_of(word_at<1>(row, i) & 0xffffu);
  const uint4 low = words_at<0>(row, 2 * i);
  const uint4 high = words_at<0>(row, 2 * i + 1);
#pragma unroll
  for (uint32_t j = 0; j < 16; ++j) {
    v[j] = static_cast<float>(signed_byte_of(low, j)) * d;
    v[j + 16] = static_cast<float>(signed_byte_of(high, j)) * d;
  }
}

}  // namespace infer::cuda::INFER_TYPE
