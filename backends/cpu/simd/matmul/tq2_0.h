// TQ2_0: the parts of 128 ternary weights share 32 bytes of bit pairs; one scale.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::tq2_0;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 66;
  using Sub = Sub32Offset<3, 0>;

  struct Head {
    Floats d;
    explicit Head(const std::byte* block) : d(half(block, 64)) {}
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    for (int j = 0; j < 8; ++j) {
      const Ints bytes = dword(block, 0, part / 4 * 8 + j);
      out.codes.set(j, (bytes >> (part % 4 * 2)) & Ints::set(0x03030303));
    }
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
