// Q4_1: d and m as halves of one dword, then nibbles as in Q4_0.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q4_1;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 20;
  using Sub = Sub32<15>;
  using Head = ScaleAndMin;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    set_nibbles(block, 4, out.codes);
    out.scale = head.d;
    out.min = head.m;
  }
};

}  // namespace
}  // namespace infer::cpu
