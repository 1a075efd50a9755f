// Q3_K: 32 bytes with a third bit for each of the eight parts; the parts of 128 weights share 32
// bytes of bit pairs; 6-bit scales of 16 weights in twelve bytes: sixteen nibbles, then the upper
// two bits.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q3_k;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 110;
  using Sub = Sub16<7, 2>;

  struct Head {
    Ints scales[4];
    Floats d;
    explicit Head(const std::byte* block) : d(half(block, 108)) {
      const Ints a = dword(block, 96);
      const Ints b = dword(block, 100);
      const Ints top = dword(block, 104);
      const auto upper = [&](int i) { return ((top >> (2 * i)) & Ints::set(0x03030303)) << 4; };
      scales[0] = low_nibbles(a) | upper(0);
      scales[1] = low_nibbles(b) | upper(1);
      scales[2] = high_nibbles(a) | upper(2);
      scales[3] = high_nibbles(b) | upper(3);
    }
    Ints scale(int i) const { return byte_of(scales[i / 4], i % 4) - Ints::set(32); }
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const int64_t codes = 32 + part / 4 * 32;
    for (int j = 0; j < 8; ++j) {
      const Ints twos = (dword(block, codes, j) >> (part % 4 * 2)) & Ints::set(0x03030303);
      const Ints third = shifted(dword(block, 0, j), 2 - part) & Ints::set(0x04040404);
      out.codes.set(j, twos | third);
    }
    const Ints first = head.scale(2 * part);
    const Ints second = head.scale(2 * part + 1);
    out.scales = HalfScales<2>(first, second);
    out.d = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
