// Weights of 16 bits; the last block of a row ends in zeros.
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

/// `value`: that of 16 bits.
template <typename Value>
INFER_DEVICE void decode_halves(const Row& row, uint32_t i, const Value& value, float (&v)[32]) {
#pragma unroll
  for (uint32_t w = 0; w < 4; ++w) {
    const uint4 words = words_at<0>(row, 4 * i + w);
#pragma unroll
    for (uint32_t t = 0; t < 8; ++t) {
      const uint32_t bits = (part_of(words, t / 2) >> (t % 2 * 16)) & 0xffffu;
      v[8 * w + t] = value(bits);
    }
  }
}

}  // namespace infer::cuda::INFER_TYPE
