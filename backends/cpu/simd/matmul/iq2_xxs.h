// IQ2_XXS: for each 32 weights a dword of four codebook indices and one of four times seven signs
// and a 4-bit scale.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid<256, 2> kGrid(kIq2XxsGrid);

struct Weights {
  static constexpr DType kType = DType::iq2_xxs;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 66;
  using Sub = Sub32Offset<107, 6>;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints indices = dword(block, 2, 2 * part);
    const Ints stored = dword(block, 2, 2 * part + 1);
    const Ints signs = four_times_eight_signs(stored);
    const Lookup levels(kIq2Codes.codes);
    for (int l = 0; l < 4; ++l) {
      set_iq2(l, kGrid.find(byte_of(indices, l)), signs, levels, out.codes);
    }
    out.scale = head.d * (to_float(stored >> 28) + Floats::set(0.5f)) * Floats::set(0.25f);
  }
};

}  // namespace
}  // namespace infer::cpu
