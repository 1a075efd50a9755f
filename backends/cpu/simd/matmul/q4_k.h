// Q4_K.
#pragma once

#include "backends/cpu/simd/k_minima.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::q4_k;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 144;
  using Sub = Sub32<kByteCodes ? 255 : 15>;
  using Head = KMinima;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    if constexpr (kByteCodes) {
      // High nibbles stay where they are, as codes of sixteen times as much. A sixteenth of the
      // scale is exact, and so is its product with a column's, down to 2^-122.
      const int shift = part % 2 * 4;
      for (int j = 0; j < 8; ++j) {
        out.codes.set(j, dword(block, 16 + part / 2 * 32, j) & Ints::set(0x0f0f0f0f << shift));
      }
      out.scale = head.scale(part) * Floats::set(shift == 0 ? 1.0f : 1.0f / 16);
    } else {
      for (int j = 0; j < 8; ++j) out.codes.set(j, k_nibbles(block, 16, part, j));
      out.scale = head.scale(part);
    }
    out.min = head.min(part);
  }
};

}  // namespace
}  // namespace infer::cpu
