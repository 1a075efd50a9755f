// Q5_K: 32 bytes with a fifth bit for each of the eight parts, then nibbles as in Q4_K.
#pragma once

#include "backends/cpu/simd/k_minima.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q5_k;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 176;
  using Sub = Sub32<31>;
  using Head = KMinima;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    for (int j = 0; j < 8; ++j) {
      const Ints fifth = shifted(dword(block, 16, j), 4 - part) & Ints::set(0x10101010);
      out.codes.set(j, k_nibbles(block, 48, part, j) | fifth);
    }
    out.scale = head.scale(part);
    out.min = head.min(part);
  }
};

}  // namespace
}  // namespace infer::cpu
