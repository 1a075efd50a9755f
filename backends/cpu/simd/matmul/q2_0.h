// Q2_0: two bits for each of 64 weights, four to a byte in their order; one scale.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q2_0;
  static constexpr int kBlock = 64;
  static constexpr int kBytes = 18;
  using Sub = Sub32Offset<3, 0>;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    for (int j = 0; j < 8; ++j) {
      const Ints byte = byte_of(dword(block, 2, 2 * part + j / 4), j % 4);
      const Ints two = byte | (byte << 12);  // pairs 0 and 2 in the lowest bits of words
      out.codes.set(j, (two | (two << 6)) & Ints::set(0x03030303));
    }
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
