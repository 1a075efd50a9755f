// What the IQ types share: engine/quant/iq_decode.h. The grids are in memory (tables.h).
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda {

inline constexpr uint32_t kIq2XxsGrid = 0;
inline constexpr uint32_t kIq2XsGrid = 256;
inline constexpr uint32_t kIq2SGrid = kIq2XsGrid + 512;
inline constexpr uint32_t kIq3XxsGrid = kIq2SGrid + 1024;
inline constexpr uint32_t kIq3SGrid = kIq3XxsGrid + 256;
inline constexpr uint32_t kIq1Grid = kIq3SGrid + 512;

INFER_DEVICE uint32_t grid_entry(const Row& row, uint32_t grid, uint32_t index) {
  return Global<const uint16_t>(row.tables)[grid + index];
}

INFER_DEVICE uint32_t iq_signs(uint32_t seven) {
  const uint32_t low = seven & 127;
  return low | ((bits_set(low) & 1) << 7);
}

INFER_DEVICE float with_sign(float value, uint32_t signs, uint32_t i) {
  return float_of(bits_of(value) ^ (((signs >> i) & 1) << 31));
}

/// Levels 8, 25, 43.
INFER_DEVICE void put_iq2(uint32_t entry, uint32_t signs, float scale, uint32_t to,
                          float (&v)[32]) {
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t level = (0x002b1908u >> (((entry >> (2 * i)) & 3) * 8)) & 255;
    v[to + i] = with_sign(scale * static_cast<float>(level), signs, i);
  }
}

/// Levels 4, 12, … 52, 62.
INFER_DEVICE uint32_t iq3_xxs_level(uint32_t code) { return 4 + 8 * code + (code == 7 ? 2 : 0); }
/// Levels 1, 3, … 15.
INFER_DEVICE uint32_t iq3_s_level(uint32_t code) { return 1 + 2 * code; }

/// Levels −1, 0, 1.
INFER_DEVICE void put_iq1(uint32_t entry, float delta, float scale, uint32_t to, float (&v)[32]) {
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const int32_t level = static_cast<int32_t>((entry >> (2 * i)) & 3) - 1;
    v[to + i] = scale * (static_cast<float>(level) + delta);
  }
}

}  // namespace infer::cuda
