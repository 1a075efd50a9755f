// Keys and values in their pages.
#pragma once

#include "backends/cuda/cache_types.h"
#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

inline constexpr uint32_t kPageTokens = 64;  ///< engine/graph/kv_geometry.h

/// Pages of one kind for all sequences of a step.
struct Pages {
  uint64_t table;
  uint32_t stride;

  /// The address of the page that holds a slot of a sequence.
  INFER_DEVICE uint64_t of(uint32_t sequence, uint32_t slot) const {
    return Global<const uint64_t>(table)[sequence * stride + slot / kPageTokens];
  }
};
INFER_DEVICE Pages pages_of(uint64_t step, uint32_t kind) {
  const uint64_t at = step + sizeof(gpu::StepHeader) + kind * sizeof(gpu::StepKind);
  return {Global<const uint64_t>(at)[0],
          Global<const uint32_t>(at + offsetof(gpu::StepKind, stride))[0]};
}

INFER_DEVICE uint32_t cache_block(uint32_t type) {
  return type == kCacheQ8_0 || type == kCacheQ4_0 ? 32 : 1;
}

/// Element i of a key or value at `row`.
INFER_DEVICE float cache_element(uint32_t type, uint64_t row, uint32_t i) {
  if (type == kCacheF32) return Global<const float>(row)[i];
  if (type == kCacheF16) return half_of(Global<const uint16_t>(row)[i]);
  if (type == kCacheBf16) {
    return float_of(static_cast<uint32_t>(Global<const uint16_t>(row)[i]) << 16);
  }
  const uint64_t block = row + i / 32 * (type == kCacheQ8_0 ? 34 : 18);
  const float scale = half_of(Global<const uint16_t>(block)[0]);
  if (type == kCacheQ8_0) {
    return static_cast<float>(Global<const int8_t>(block)[2 + i % 32]) * scale;
  }
  const uint32_t byte = Global<const uint8_t>(block)[2 + i % 16];
  const uint32_t level = (byte >> (i % 32 / 16 * 4)) & 15;
  return static_cast<float>(static_cast<int32_t>(level) - 8) * scale;
}

/// To the nearest bfloat16, halves to even; NaN stays NaN.
INFER_DEVICE uint32_t brain_bits(float x) {
  const uint32_t bits = bits_of(x);
  if (is_nan(x)) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

INFER_DEVICE uint32_t finite_half_bits(float x) {
  return half_bits(least_of(most_of(x, -65504.0f), 65504.0f));
}

INFER_DEVICE uint32_t cache_level(float x, float low, float high) {
  return static_cast<uint32_t>(static_cast<int32_t>(least_of(most_of(rounded(x), low), high)));
}

/// The value of largest magnitude.
INFER_DEVICE float extreme_of(const float (&x)[32]) {
  float extreme = 0;
#pragma unroll
  for (uint32_t j = 0; j < 32; ++j) {
    if (magnitude_of(x[j]) > magnitude_of(extreme)) extreme = x[j];
  }
  return extreme;
}

/// engine/quant/q8_0.h
INFER_DEVICE void store_q8_0(const float (&x)[32], const Global<uint16_t>& block) {
  const uint32_t d = finite_half_bits(magnitude_of(extreme_of(x)) / 127.0f);
  const float scale = half_of(d);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  block[0] = static_cast<uint16_t>(d);
#pragma unroll
  for (uint32_t j = 0; j < 16; ++j) {
    const uint32_t low = cache_level(x[2 * j] * inverse, -127, 127);
    const uint32_t high = cache_level(x[2 * j + 1] * inverse, -127, 127);
    block[1 + j] = static_cast<uint16_t>((low & 255u) | ((high & 255u) << 8));
  }
}

/// engine/quant/q4_0.h
INFER_DEVICE void store_q4_0(const float (&x)[32], const Global<uint16_t>& block) {
  const uint32_t d = finite_half_bits(extreme_of(x) / -8.0f);
  const float scale = half_of(d);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  block[0] = static_cast<uint16_t>(d);
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    uint32_t word = 0;
#pragma unroll
    for (uint32_t part = 0; part < 2; ++part) {
      const uint32_t low = cache_level(x[2 * j + part] * inverse, -8, 7) + 8;
      const uint32_t high = cache_level(x[2 * j + part + 16] * inverse, -8, 7) + 8;
      word |= (low | (high << 4)) << (8 * part);
    }
    block[1 + j] = static_cast<uint16_t>(word);
  }
}

/// Stores element i of a key or value at `row`. Nothing of a type with blocks.
INFER_DEVICE void store_element(uint32_t type, float x, uint64_t row, uint32_t i) {
  if (type == kCacheF32) Global<float>{row}[i] = x;
  if (type == kCacheF16) Global<uint16_t>{row}[i] = static_cast<uint16_t>(half_bits(x));
  if (type == kCacheBf16) Global<uint16_t>{row}[i] = static_cast<uint16_t>(brain_bits(x));
}
/// Stores unit i of a key or value at `row`: element x[0], or a block of 32.
INFER_DEVICE void store_unit(uint32_t type, const float (&x)[32], uint64_t row, uint32_t i) {
  store_element(type, x[0], row, i);
  if (type == kCacheQ8_0) store_q8_0(x, Global<uint16_t>(row + i * 34));
  if (type == kCacheQ4_0) store_q4_0(x, Global<uint16_t>(row + i * 18));
}

/// Where unit i of a head of a slot's key or value is: at number `unit` from `row` on. `at`: of the
/// keys or values in the page. `across`: not 0: keys are transposed.
struct UnitPlace {
  uint64_t row;
  uint32_t unit;
};
INFER_DEVICE UnitPlace place_in_page(uint64_t at, uint32_t head, uint32_t slot, uint32_t stride,
                                     uint32_t across, uint32_t i) {
  const uint32_t token = slot % kPageTokens;
  if (across != 0) return {at + head * kPageTokens * stride, i * kPageTokens + token};
  return {at + (head * kPageTokens + token) * stride, i};
}
INFER_DEVICE void store_in_page(uint32_t type, const float (&x)[32], uint64_t at, uint32_t head,
                                uint32_t slot, uint32_t stride, uint32_t across, uint32_t i) {
  const UnitPlace place = place_in_page(at, head, slot, stride, across, i);
  store_unit(type, x, place.row, place.unit);
}

}  // namespace infer::cuda
