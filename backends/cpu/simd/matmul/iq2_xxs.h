// IQ2_XXS: for each 32 weights a dword of four codebook indices and one of four times seven signs
// and a 4-bit scale.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid kGrid(kIq2XxsGrid, 2);

struct Weights {
  static constexpr DType kType = DType::iq2_xxs;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 66;
  using Sub = Sub32Offset<107, 6>;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints indices = dword(block, 2, 2 * part);
    const Ints signs = dword(block, 2, 2 * part + 1);
    const Lookup levels(kIq2Codes.codes);
    for (int l = 0; l < 4; ++l) {
      set_iq2(2 * l, Ints::gather(kGrid.entries, byte_of(indices, l)),
              eight_signs(signs >> (7 * l)), levels, out.codes);
    }
    out.scale = head.d * (to_float(signs >> 28) + Floats::set(0.5f)) * Floats::set(0.25f);
  }
};

}  // namespace
}  // namespace infer::cpu
