// What the IQ2 and IQ3 types share: entries of a codebook, found for every row at once, and signs.
#pragma once

#include "backends/cpu/simd/rows.h"
#include "engine/quant/iq_grids.h"

namespace infer::cpu {
namespace {

/// A codebook as dwords, which can be gathered. Byte i of an entry holds the number of level i in
/// its low nibble and, of eight levels, that of level i + 4 in the high one.
template <size_t kSize>
struct Grid {
  uint32_t entries[kSize] = {};
  /// `bits`: of a level in `words`.
  constexpr Grid(const uint16_t (&words)[kSize], int bits) {
    for (size_t i = 0; i < kSize; ++i) {
      for (int l = 0; l < 16 / bits; ++l) {
        const uint32_t level = (words[i] >> (l * bits)) & ((1u << bits) - 1);
        entries[i] |= level << (l % 4 * 8 + l / 4 * 4);
      }
    }
  }
};

/// zero ± level, by the level's number and, above its `bits` bits, the sign.
template <int kBits, size_t kLevels>
struct SignedLevels {
  int8_t codes[16] = {};
  constexpr SignedLevels(const float (&levels)[kLevels], int zero) {
    for (size_t i = 0; i < kLevels; ++i) {
      codes[i] = static_cast<int8_t>(zero + static_cast<int>(levels[i]));
      codes[i + (1 << kBits)] = static_cast<int8_t>(zero - static_cast<int>(levels[i]));
    }
  }
};

constexpr int kIq2Zero = 64;
constexpr SignedLevels<2, 4> kIq2Codes(kIq2Levels, kIq2Zero);

/// Seven stored sign bits make eight: the last makes the number of minus signs even.
[[gnu::always_inline]] inline Ints eight_signs(Ints seven) {
  const Ints low = seven & Ints::set(127);
  Ints parity = low ^ (low >> 4);
  parity = parity ^ (parity >> 2);
  parity = (parity ^ (parity >> 1)) & Ints::set(1);
  return low | (parity << 7);
}

/// Sixteen 4-bit scales s at `kOffset`: d·(½ + s)·¼ = (d/8)·(2s + 1) for each 16 weights.
template <int kOffset>
struct Iq2Scales {
  Floats d;
  Ints scales[2];
  explicit Iq2Scales(const std::byte* block)
      : d(half(block, 0) * Floats::set(0.125f)),
        scales{dword(block, kOffset, 0), dword(block, kOffset, 1)} {}

  [[gnu::always_inline]] void apply(int part, Sub16<107, 6>& out) const {
    const Ints both = byte_of(scales[part / 4], part % 4);
    const Ints first = both & Ints::set(15);
    const Ints second = both >> 4;
    const Ints a = first + first + Ints::set(1);
    const Ints b = second + second + Ints::set(1);
    out.scales = HalfScales<6>(a, b);
    out.d = d;
  }
};

/// Two dwords of codes from an entry of eight levels.
template <int kMax>
[[gnu::always_inline]] inline void set_iq2(int j, Ints entry, Ints signs, const Lookup& levels,
                                           Codes<kMax>& codes) {
  codes.set(j, levels(low_nibbles(entry) | (spread_bits(signs, 0) << 2)));
  codes.set(j + 1, levels(high_nibbles(entry) | (spread_bits(signs, 1) << 2)));
}

/// One dword of codes from an entry of four levels; sign bits 4·nibble….
template <int kMax>
[[gnu::always_inline]] inline void set_iq3(int j, Ints entry, Ints signs, int nibble,
                                           const Lookup& levels, Codes<kMax>& codes) {
  codes.set(j, levels(entry | (spread_bits(signs, nibble) << 3)));
}

}  // namespace
}  // namespace infer::cpu
