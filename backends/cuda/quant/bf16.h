// BF16: the upper half of a float32; the last block of a row ends in zeros.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 32;
  static constexpr uint32_t kPlane0 = 64;
  static constexpr uint32_t kPlane1 = 0;
  static constexpr uint32_t kPlane2 = 0;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
#pragma unroll
  for (uint32_t w = 0; w < 4; ++w) {
    const uint4 words = words_at<0>(row, 4 * i + w);
#pragma unroll
    for (uint32_t t = 0; t < 8; ++t) {
      const uint32_t bits = (part_of(words, t / 2) >> (t % 2 * 16)) & 0xffffu;
      v[8 * w + t] = float_of(bits << 16);
    }
  }
}

}  // namespace infer::cuda::INFER_TYPE
