// TQ1_0: engine/quant/tq1_0.h.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kPlane0 = 48;
  static constexpr uint32_t kPlane1 = 4;
  static constexpr uint32_t kPlane2 = 2;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

// The digit of a byte that 3^n brings to the top.
INFER_DEVICE float digit(uint32_t byte, uint32_t power, float d) {
  const uint32_t rest = (byte * power) & 255;
  return static_cast<float>(static_cast<int32_t>((rest * 3) >> 8) - 1) * d;
}

INFER_DEVICE uint32_t power_of(uint32_t n) {
  return n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
}

// Five digits of 32 bytes, then five of 16, then four of 4.
INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const uint32_t b = i / 8;
  const uint32_t part = i % 8;
  const float d = half_at<2>(row, b);
  const uint4 low = words_at<0>(row, 3 * b + (part < 5 ? 0 : 2));
  const uint4 high = words_at<0>(row, 3 * b + (part < 5 ? 1 : 2));
  const uint32_t last = word_at<1>(row, b);
  const uint32_t first_power = power_of(part < 5 ? part : 2 * part - 10);
  const uint32_t second_power = power_of(part < 5 ? part : 2 * part - 9);
#pragma unroll
  for (uint32_t j = 0; j < 16; ++j) {
    v[j] = digit(byte_of(low, j), first_power, d);
    const float other = digit((last >> (j % 4 * 8)) & 255, power_of(j / 4), d);
    v[j + 16] = part == 7 ? other : digit(byte_of(high, j), second_power, d);
  }
}

}  // namespace infer::cuda::INFER_TYPE
