// IQ1_S: for each eight weights an 11-bit codebook index, whose upper three bits lie apart; for
// each 32 a 3-bit scale and the sign of what is added to their levels.
#pragma once

#include "backends/cpu/simd/iq1_codes.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::iq1_s;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 50;
  using Sub = Sub32Offset<25, 4>;

  struct Head {
    Floats d;
    explicit Head(const std::byte* block) : d(half(block, 0) * Floats::set(0.125f)) {}
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints low = dword(block, 2, part);
    const Ints high = dword(block, 34, part / 2) >> (part % 2 * 16);
    const Lookup levels(kIq1Codes.codes);
    const Ints sign = high >> 15;
    for (int l = 0; l < 4; ++l) {
      set_iq1(l, byte_of(low, l), high >> (3 * l), sign, levels, out.codes);
    }
    const Ints s = (high >> 12) & Ints::set(7);
    out.scale = head.d * to_float(s + s + Ints::set(1));
  }
};

}  // namespace
}  // namespace infer::cpu
