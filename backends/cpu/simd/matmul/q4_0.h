// Q4_0.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q4_0;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 18;
  using Sub = Sub32Offset<15, 3>;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    set_nibbles(block, 2, out.codes);
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
