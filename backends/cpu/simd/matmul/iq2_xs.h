// IQ2_XS: words of a 9-bit codebook index and seven signs for eight weights; 4-bit scales of 16.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid kGrid(kIq2XsGrid, 2);

struct Weights {
  static constexpr DType kType = DType::iq2_xs;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 74;
  using Sub = Sub16<107, 6>;
  using Head = Iq2Scales<66>;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Lookup levels(kIq2Codes.codes);
    for (int l = 0; l < 4; ++l) {
      const Ints word = dword(block, 2, 2 * part + l / 2) >> (16 * (l % 2));
      set_iq2(2 * l, Ints::gather(kGrid.entries, word & Ints::set(511)), eight_signs(word >> 9),
              levels, out.codes);
    }
    head.apply(part, out);
  }
};

}  // namespace
}  // namespace infer::cpu
