// Q2_K: scales and minima of 16 weights in the nibbles of 16 bytes; the parts of 128 weights share
// 32 bytes of bit pairs.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q2_k;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 84;
  using Sub = Sub16Min<3>;

  struct Head {
    Ints scales[4];
    Floats d, dmin;
    explicit Head(const std::byte* block) {
      for (int i = 0; i < 4; ++i) scales[i] = dword(block, 0, i);
      const Ints both = dword(block, 80);
      d = half_low(both);
      dmin = Floats::zero() - half_low(both >> 16);
    }
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const int64_t codes = 16 + part / 4 * 32;
    for (int j = 0; j < 8; ++j) {
      out.codes.set(j, (dword(block, codes, j) >> (part % 4 * 2)) & Ints::set(0x03030303));
    }
    const Ints first = byte_of(head.scales[part / 2], part % 2 * 2);
    const Ints second = byte_of(head.scales[part / 2], part % 2 * 2 + 1);
    out.scales = HalfScales<-1>(first & Ints::set(15), second & Ints::set(15));
    out.mins = pairs(first >> 4, second >> 4);
    out.d = head.d;
    out.dmin = head.dmin;
  }
};

}  // namespace
}  // namespace infer::cpu
