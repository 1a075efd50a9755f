// Q8_0: signed bytes, moved to 0..255.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q8_0;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 34;
  using Sub = Sub32Wide;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    for (int j = 0; j < 8; ++j) out.codes.set(j, wide_codes(dword(block, 2, j)));
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
