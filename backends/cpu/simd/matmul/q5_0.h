// Q5_0: 32 fifth bits, then nibbles as in Q4_0.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q5_0;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 22;
  using Sub = Sub32Offset<31, 4>;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    set_five_bits(dword(block, 2), block, 6, out.codes);
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
