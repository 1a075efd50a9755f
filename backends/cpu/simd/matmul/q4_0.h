// Q4_0: the low nibbles of the 16 bytes are the first 16 weights.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q4_0;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 18;
  using Sub = Sub32<15>;

  struct Head {
    F d;
    explicit Head(const std::byte* block) : d(half(block, 0)) {}
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    for (int j = 0; j < 4; ++j) {
      const I codes = dword(block, 2, j);
      out.codes.set(j, low_nibbles(codes));
      out.codes.set(j + 4, high_nibbles(codes));
    }
    out.scale = head.d;
    out.min = head.d * F::set(-8);
  }
};

}  // namespace
}  // namespace infer::cpu
