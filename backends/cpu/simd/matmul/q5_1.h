// Q5_1: d and m as halves of one dword, then as Q5_0.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q5_1;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 24;
  using Sub = Sub32<31>;
  using Head = ScaleAndMin;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    set_five_bits(dword(block, 4), block, 8, out.codes);
    out.scale = head.d;
    out.min = head.m;
  }
};

}  // namespace
}  // namespace infer::cpu
