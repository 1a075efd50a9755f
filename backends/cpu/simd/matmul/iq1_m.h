// IQ1_M: for each eight weights a codebook index of a byte and three bits of a nibble, whose fourth
// is the sign of what is added to their levels; 3-bit scales of 16. The scale of the block lies in
// the top nibbles of the words that hold those.
#pragma once

#include "backends/cpu/simd/iq1_codes.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::iq1_m;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 56;
  using Sub = Sub16<25, 4>;

  struct Head {
    Ints scales[2];
    Floats d;
    explicit Head(const std::byte* block) : scales{dword(block, 48, 0), dword(block, 48, 1)} {
      // Nibbles 3 and 7 of both.
      const auto two = [](Ints words) {
        return ((words >> 12) & Ints::set(15)) | ((words >> 24) & Ints::set(0xf0));
      };
      d = half_low(two(scales[0]) | (two(scales[1]) << 8)) * Floats::set(0.125f);
    }
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints low = dword(block, 0, part);
    const Ints high = dword(block, 32, part / 2) >> (part % 2 * 16);
    const Lookup levels(kIq1Codes.codes);
    for (int l = 0; l < 4; ++l) {
      const Ints nibble = high >> (4 * l);
      set_iq1(l, byte_of(low, l), nibble, nibble >> 3, levels, out.codes);
    }
    const Ints both = head.scales[part / 4] >> (part / 2 % 2 * 16 + part % 2 * 6);
    const auto scale = [](Ints bits) {
      const Ints s = bits & Ints::set(7);
      return s + s + Ints::set(1);
    };
    out.scales = HalfScales<4>(scale(both), scale(both >> 3));
    out.d = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
