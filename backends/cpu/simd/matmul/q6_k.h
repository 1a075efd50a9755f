// Q6_K: of the parts of 128 weights, 0 and 1 have their low four bits in the low nibbles of two
// runs of 32 bytes, 2 and 3 in the high ones; all four share 32 bytes of upper bit pairs. Signed
// scales for each 16.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q6_k;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 210;
  using Sub = Sub16<63, 5>;

  struct Head {
    Ints scales[4];
    Floats d;
    explicit Head(const std::byte* block) : d(half(block, 208)) {
      for (int i = 0; i < 4; ++i) scales[i] = dword(block, 192, i);
    }
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const int low = part / 4 * 64 + part % 2 * 32;
    const int low_shift = part % 4 / 2 * 4;
    const int high = 128 + part / 4 * 32;
    const int high_shift = 4 - part % 4 * 2;
    for (int j = 0; j < 8; ++j) {
      const Ints nibbles = (dword(block, low, j) >> low_shift) & Ints::set(0x0f0f0f0f);
      const Ints twos = shifted(dword(block, high, j), high_shift) & Ints::set(0x30303030);
      out.codes.set(j, nibbles | twos);
    }
    const Ints first = signed_byte_of(head.scales[part / 2], part % 2 * 2);
    const Ints second = signed_byte_of(head.scales[part / 2], part % 2 * 2 + 1);
    out.scales = HalfScales<5>(first, second);
    out.d = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
