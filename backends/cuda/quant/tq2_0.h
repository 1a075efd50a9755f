// TQ2_0: engine/quant/tq2_0.h.
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

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const float d = half_at<1>(row, i / 8);
  const uint32_t first = 4 * (i / 8) + (i % 8) / 4 * 2;
  const uint4 low = words_at<0>(row, first);
  const uint4 high = words_at<0>(row, first + 1);
  const uint32_t shift = i % 4 * 2;
#pragma unroll
  for (uint32_t l = 0; l < 16; ++l) {
    v[l] = static_cast<float>(static_cast<int32_t>((byte_of(low, l) >> shift) & 3) - 1) * d;
    v[l + 16] = static_cast<float>(static_cast<int32_t>((byte_of(high, l) >> shift) & 3) - 1) * d;
  }
}

}  // namespace infer::cuda::INFER_TYPE
