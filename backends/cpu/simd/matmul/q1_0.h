// Q1_0: a bit for each of 128 weights, which are ± one scale.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q1_0;
  static constexpr int kBlock = 128;
  static constexpr int kBytes = 18;
  using Sub = Sub32Offset<2, 0>;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints bits = dword(block, 2, part);
    for (int j = 0; j < 8; ++j) out.codes.set(j, spread_bits(bits, j) << 1);
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
