// backends/cuda/device/warpgroup.h for the emulator. A product is computed when it begins; its sums
// are there once it has been waited for. Before that they are NaN, and what has changed its
// registers or its part of shared memory in the meantime is a fault.
#pragma once

#include <algorithm>
#include <iterator>

#include "tests/cuda/emulator/device.h"

namespace infer::cuda {

inline void show_products() { emu::show_products(); }

template <typename T>
uint64_t product_matrix(SharedPtr<T> begin, uint32_t k_bytes, uint32_t column_bytes) {
  const size_t at = emu::shared_offset(begin.address(0, 1));
  if (at % 16 != 0 || k_bytes % 16 != 0 || column_bytes % 16 != 0) {
    emu::fault("a matrix in shared memory whose places are not multiples of 16 bytes");
  }
  return uint64_t{at >> 4} | uint64_t{k_bytes >> 4} << 16 | uint64_t{column_bytes >> 4} << 32;
}

inline void warpgroup_fence() { emu::products().fenced = true; }
inline void warpgroup_commit() {
  emu::Products& own = emu::products();
  own.groups.push_back(own.running.size());
  own.fenced = false;
}

namespace detail {

/// As PTX ISA, "Matrix Descriptor Format", has it.
struct ProductMatrix {
  size_t begin, k_bytes, column_bytes;
  explicit ProductMatrix(uint64_t bits)
      : begin((bits & 0x3fff) << 4),
        k_bytes((bits >> 16 & 0x3fff) << 4),
        column_bytes((bits >> 32 & 0x3fff) << 4) {
    if ((bits & ~0x00003fff3fff3fffull) != 0) emu::fault("a descriptor with unknown bits");
  }
  /// Eight elements of K of a column.
  const std::byte* eight(uint32_t column, uint32_t part) const {
    return emu::shared_place(begin + part * k_bytes + column / 8 * column_bytes + column % 8 * 16,
                             16);
  }
  /// The lane's share of what its warp has to check.
  void check(uint32_t columns) const {
    for (uint32_t i = lane(); i < 2 * columns; i += 32) {
      emu::shared_access(eight(i / 2, i % 2), 16, emu::Access::product);
    }
  }
};

/// Every lane gets its two rows of A.
inline void rows_of_a(const std::byte* in, std::byte* out) {
  uint16_t rows[16][16];
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t a[4];
    std::memcpy(a, in + l * emu::kSlot, sizeof(a));
    if (std::memcmp(in + l * emu::kSlot + sizeof(a), in + sizeof(a), 8) != 0) {
      emu::fault("lanes of a product with different descriptors");
    }
    for (uint32_t i = 0; i < 8; ++i) {
      rows[l / 4 + i / 2 % 2 * 8][l % 4 * 2 + i % 2 + i / 4 * 8] =
          static_cast<uint16_t>(a[i / 2] >> (i % 2 * 16));
    }
  }
  for (uint32_t l = 0; l < 32; ++l) {
    std::memcpy(out + l * emu::kSlot, rows[l / 4], 32);
    std::memcpy(out + l * emu::kSlot + 32, rows[l / 4 + 8], 32);
  }
}

inline constexpr uint32_t kUnderWay = 0x7fc0dead;  // a NaN

/// Ends the product that began first.
inline void end_product() {
  emu::Products& own = emu::products();
  const emu::Product product = std::move(own.running.front());
  own.running.erase(own.running.begin());
  if (std::memcmp(product.a, product.a_was, sizeof(product.a_was)) != 0) {
    emu::fault("the registers of a product under way were changed");
  }
  const auto count = static_cast<uint32_t>(product.values.size());
  ProductMatrix(product.matrix).check(2 * count);
  for (uint32_t i = 0; i < count; ++i) {
    if (bits_of(product.sums[i]) != kUnderWay) {
      emu::fault("the sums of a product under way were changed");
    }
  }
  const bool last = std::ranges::none_of(
      own.running, [&](const emu::Product& other) { return other.sums == product.sums; });
  if (last) std::ranges::copy(product.values, product.sums);
}

}  // namespace detail

template <uint32_t kPending>
void warpgroup_wait() {
  emu::Products& own = emu::products();
  while (own.groups.size() > kPending) {
    const size_t until = own.groups.front();
    for (size_t i = 0; i < until; ++i) detail::end_product();
    own.groups.erase(own.groups.begin());
    for (size_t& end : own.groups) end -= until;
  }
}

/// d = a·b, or `add`: a·b + d.
template <size_t kSums>
void warpgroup_product(float (&d)[kSums], const uint32_t (&a)[4], uint64_t b_matrix, bool add,
                       int site = __builtin_LINE()) {
  constexpr uint32_t kColumns = 2 * kSums;
  emu::Products& own = emu::products();
  if (!own.fenced) emu::fault("a product with no warpgroup_fence() since the last ones");
  if (threads() % 128 != 0) emu::fault("a product of less than a warpgroup");
  struct In {
    uint32_t a[4];
    uint64_t matrix;
  } in{{a[0], a[1], a[2], a[3]}, b_matrix};
  uint16_t rows[2][16];
  emu::collective(&detail::rows_of_a, &in, sizeof(in), rows, sizeof(rows), site);
  const detail::ProductMatrix matrix(b_matrix);
  matrix.check(kColumns);

  emu::Product product{d, a, {a[0], a[1], a[2], a[3]}, b_matrix, std::vector<float>(kSums)};
  const float* before = d;
  for (const emu::Product& other : own.running) {
    if (other.sums == d) before = other.values.data();
  }
  float values[2][16];
  for (uint32_t r = 0; r < 2; ++r) {
    for (uint32_t k = 0; k < 16; ++k) values[r][k] = f16_to_f32(rows[r][k]);
  }
  for (uint32_t i = 0; i < kSums; i += 4) {
    for (uint32_t c = 0; c < 2; ++c) {
      float column[16];
      for (uint32_t part = 0; part < 2; ++part) {
        uint16_t eight[8];
        std::memcpy(eight, matrix.eight(i / 4 * 8 + lane() % 4 * 2 + c, part), 16);
        for (uint32_t k = 0; k < 8; ++k) column[part * 8 + k] = f16_to_f32(eight[k]);
      }
      for (uint32_t r = 0; r < 2; ++r) {
        // As mma_f16() here.
        double sum = add ? before[i + 2 * r + c] : 0.0f;
        for (uint32_t k = 0; k < 16; ++k) sum += double{values[r][k]} * double{column[k]};
        product.values[i + 2 * r + c] = static_cast<float>(sum);
      }
    }
  }
  for (float& sum : d) sum = float_of(detail::kUnderWay);
  own.running.push_back(std::move(product));
}

}  // namespace infer::cuda
