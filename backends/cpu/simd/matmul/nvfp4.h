// NVFP4: 4-bit floats in sub-blocks of 16 with a scale of 8 bits each.
#pragma once

#include "backends/cpu/simd/fp4_codes.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::nvfp4;
  static constexpr int kBlock = 64;
  static constexpr int kBytes = 36;
  using Sub = Sub16Apart<28, 4>;

  struct Head {
    Ints scales;
    explicit Head(const std::byte* block) : scales(dword(block, 0)) {}
  };

  /// Half of a scale, since the levels are doubled. Its bits are those of a binary16 with another
  /// bias. The pattern of NaN stands for zero.
  [[gnu::always_inline]] static Floats half_scale(Ints byte) {
    const Ints bits = byte & Ints::set(127);
    const Ints finite = ((bits + Ints::set(1)) >> 7) - Ints::set(1);
    return half_low((bits & finite) << 7) * Floats::set(0x1p7f);
  }

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Lookup levels(kFp4Codes.codes);
    for (int j = 0; j < 4; ++j) {
      const Ints bytes = dword(block, 4, 4 * part + j);
      const int first = j / 2 * 4 + j % 2;
      out.codes.set(first, levels(low_nibbles(bytes)));
      out.codes.set(first + 2, levels(high_nibbles(bytes)));
    }
    const Ints both = head.scales >> (16 * part);
    out.first = half_scale(both);
    out.second = half_scale(both >> 8);
  }
};

}  // namespace
}  // namespace infer::cpu
