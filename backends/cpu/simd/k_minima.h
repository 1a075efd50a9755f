// What Q4_K and Q5_K share: eight parts of 32 weights with 6-bit scales and minima.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

/// d and dmin as halves of one dword, then twelve bytes: the first four scales and the first four
/// minima in the low six bits of eight bytes, the others in nibbles and the two top bits.
struct KMinima {
  Ints scales[2], mins[2];  ///< four bytes each
  Floats d, dmin;

  explicit KMinima(const std::byte* block) {
    const Ints both = dword(block, 0);
    d = half_low(both);
    dmin = Floats::zero() - half_low(both >> 16);
    const Ints a = dword(block, 4);
    const Ints b = dword(block, 8);
    const Ints c = dword(block, 12);
    const Ints six = Ints::set(0x3f3f3f3f);
    const Ints top = Ints::set(0x30303030);
    scales[0] = a & six;
    mins[0] = b & six;
    scales[1] = low_nibbles(c) | ((a >> 2) & top);
    mins[1] = high_nibbles(c) | ((b >> 2) & top);
  }

  Floats scale(int part) const { return d * to_float(byte_of(scales[part / 4], part % 4)); }
  /// Negative.
  Floats min(int part) const { return dmin * to_float(byte_of(mins[part / 4], part % 4)); }
};

/// Dword j of the nibbles of part `part`: two parts share 32 bytes.
[[gnu::always_inline]] inline Ints k_nibbles(const std::byte* block, int64_t offset, int part,
                                             int j) {
  const Ints codes = dword(block, offset + part / 2 * 32, j);
  return (codes >> (part % 2 * 4)) & Ints::set(0x0f0f0f0f);
}

}  // namespace
}  // namespace infer::cpu
