// What the IQ2 and IQ3 types share: entries of a codebook, found for every row at once, and signs.
#pragma once

#include "backends/cpu/simd/rows.h"
#include "engine/quant/iq_grids.h"

namespace infer::cpu {
namespace {

/// A codebook of levels of kBits bits. Byte i of an entry holds the number of level i in its low
/// nibble and, of eight levels, that of level i + 4 in the high one.
template <size_t kSize, int kBits>
struct Grid {
  uint32_t entries[kSize] = {};
  /// For instruction sets that look up words: bits of the upper half of an entry, moved to bits of
  /// the lower half that are not used.
  alignas(64) uint16_t words[kSize] = {};

  constexpr explicit Grid(const uint16_t (&packed)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) {
      for (int l = 0; l < 16 / kBits; ++l) {
        const uint32_t level = (packed[i] >> (l * kBits)) & ((1u << kBits) - 1);
        entries[i] |= level << (l % 4 * 8 + l / 4 * 4);
      }
      words[i] = static_cast<uint16_t>(entries[i] | (entries[i] >> 16 << kBits));
    }
  }

  /// The entry for each lane. Of more than 512 entries a gather is faster than all the words'
  /// tables.
  template <typename Lanes>
  [[gnu::always_inline]] inline Lanes find(Lanes index) const {
    if constexpr (kSize <= 512 && requires { Lanes::template look_up<kSize>(words, index); }) {
      const Lanes word = Lanes::template look_up<kSize>(words, index);
      return (word | (word << (16 - kBits))) & Lanes::set(kBits == 2 ? 0x33333333 : 0x0f0f0f0f);
    } else {
      return Lanes::gather(entries, index);
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

/// Each byte has seven stored sign bits. The eighth makes the number of minus signs even.
[[gnu::always_inline]] inline Ints eight_signs(Ints seven) {
  static constexpr int8_t kParity[16] = {0,    -128, -128, 0,    -128, 0,    0,    -128,
                                         -128, 0,    0,    -128, 0,    -128, -128, 0};
  const Lookup parity(kParity);
  return seven | parity(low_nibbles(seven ^ (seven >> 4)));
}

/// The same from the lowest 28 bits of a dword.
[[gnu::always_inline]] inline Ints four_times_eight_signs(Ints dword) {
  return eight_signs((dword & Ints::set(0x7f)) | ((dword << 1) & Ints::set(0x7f00)) |
                     ((dword << 2) & Ints::set(0x7f0000)) | ((dword << 3) & Ints::set(0x7f000000)));
}

/// Numbers of levels, one in each byte, with the signs of nibble `nibble` on top of their kBits
/// bits.
template <int kBits, typename Lanes>
[[gnu::always_inline]] inline Lanes with_signs(Lanes levels, Lanes signs, int nibble) {
  if constexpr (requires { or_where(levels, repeat_byte(signs, 0), 0, 0); }) {
    const Lanes bits = repeat_byte(signs, nibble / 2);
    const uint32_t mask = 0x08040201u << (nibble % 2 * 4);
    return or_where(levels, bits, static_cast<int32_t>(mask), 1 << kBits);
  } else {
    return levels | (spread_bits(signs, nibble) << kBits);
  }
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

/// Codes 8·eighth… from an entry of eight levels, with the signs of that byte.
template <int kMax>
[[gnu::always_inline]] inline void set_iq2(int eighth, Ints entry, Ints signs, const Lookup& levels,
                                           Codes<kMax>& codes) {
  const int j = 2 * eighth;
  codes.set(j, levels(with_signs<2>(low_nibbles(entry), signs, j)));
  codes.set(j + 1, levels(with_signs<2>(high_nibbles(entry), signs, j + 1)));
}

/// Codes 4·j… from an entry of four levels, with the signs of that nibble.
template <int kMax>
[[gnu::always_inline]] inline void set_iq3(int j, Ints entry, Ints signs, const Lookup& levels,
                                           Codes<kMax>& codes) {
  codes.set(j, levels(with_signs<3>(entry, signs, j)));
}

}  // namespace
}  // namespace infer::cpu
