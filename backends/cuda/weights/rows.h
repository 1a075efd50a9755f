// Reading the planes of a row of Fields. Included after them.
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

/// Rows of a group lie side by side, but those of elements that are in no blocks.
inline constexpr uint32_t kTogether = Fields::kBlock == 1 ? 1 : 32;

INFER_DEVICE constexpr uint32_t plane_bytes(uint32_t plane) {
  return plane == 0   ? Fields::kPlane0
         : plane == 1 ? Fields::kPlane1
         : plane == 2 ? Fields::kPlane2
         : plane == 3 ? Fields::kPlane3
                      : Fields::kPlane4;
}
INFER_DEVICE constexpr uint32_t unit_bytes(uint32_t plane) {
  return plane_bytes(plane) % 16 == 0 ? 16 : plane_bytes(plane);
}

/// Row `row` of matrix `matrix`, of n rows of k elements. `offsets`: of planes 1 and up, from w in
/// units of 16 bytes.
INFER_DEVICE Row row_of(uint64_t w, const uint32_t (&offsets)[4], uint64_t tables, uint32_t k,
                        uint32_t n, uint32_t matrix, uint32_t row) {
  const uint32_t blocks = (k + Fields::kBlock - 1) / Fields::kBlock;
  const uint64_t group = uint64_t{matrix} * ((n + kTogether - 1) / kTogether) + row / kTogether;
  Row of{};
#pragma unroll
  for (uint32_t p = 0; p < 5; ++p) {
    if (plane_bytes(p) == 0) continue;
    of.plane[p] = w + (p == 0 ? 0 : uint64_t{offsets[p - 1]} * 16) +
                  group * blocks * plane_bytes(p) * kTogether + row % kTogether * unit_bytes(p);
  }
  of.tables = tables;
  of.elements = k;
  return of;
}

/// Where number i of a row's part of a plane is, `per` to a unit.
INFER_DEVICE uint32_t number_at(uint32_t i, uint32_t per) {
  return i / per * (per * kTogether) + i % per;
}

template <uint32_t kPlane>
INFER_DEVICE uint32_t half_word(const Row& row, uint32_t i) {
  return Global<const uint16_t>(row.plane[kPlane])[number_at(i, unit_bytes(kPlane) / 2)];
}
template <uint32_t kPlane>
INFER_DEVICE float half_at(const Row& row, uint32_t i) {
  return half_of(half_word<kPlane>(row, i));
}
template <uint32_t kPlane>
INFER_DEVICE uint32_t byte_at(const Row& row, uint32_t i) {
  return Global<const uint8_t>(row.plane[kPlane])[number_at(i, unit_bytes(kPlane))];
}
template <uint32_t kPlane>
INFER_DEVICE uint32_t word_at(const Row& row, uint32_t i) {
  return Global<const uint32_t>(row.plane[kPlane])[number_at(i, unit_bytes(kPlane) / 4)];
}
template <uint32_t kPlane>
INFER_DEVICE uint4 words_at(const Row& row, uint32_t i) {
  return load_as<uint4>(Global<const uint4>(row.plane[kPlane]), int64_t{i} * kTogether);
}

}  // namespace infer::cuda::INFER_TYPE
