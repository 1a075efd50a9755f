// Q4_K.
#pragma once

#include "backends/cpu/simd/k_minima.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q4_k;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 144;
  using Sub = Sub32<15>;
  using Head = KMinima;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    for (int j = 0; j < 8; ++j) out.codes.set(j, k_nibbles(block, 16, part, j));
    out.scale = head.scale(part);
    out.min = head.min(part);
  }
};

}  // namespace
}  // namespace infer::cpu
