// IQ2_XS: words of a 9-bit codebook index and seven signs for eight weights; 4-bit scales of 16.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid<512, 2> kGrid(kIq2XsGrid);

struct Weights {
  static constexpr DType kType = DType::iq2_xs;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 74;
  using Sub = Sub16<107, 6>;
  using Head = Iq2Scales<66>;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Lookup levels(kIq2Codes.codes);
    const Ints words[] = {dword(block, 2, 2 * part), dword(block, 2, 2 * part + 1)};
    // Seven bits of each word, as bytes of one dword.
    const auto sevens = [](Ints two) __attribute__((always_inline)) {
      return ((two >> 9) & Ints::set(0x7f)) | ((two >> 25) << 8);
    };
    const Ints signs = eight_signs(sevens(words[0]) | (sevens(words[1]) << 16));
    for (int l = 0; l < 4; ++l) {
      const Ints index = (words[l / 2] >> (16 * (l % 2))) & Ints::set(511);
      set_iq2(l, kGrid.find(index), signs, levels, out.codes);
    }
    head.apply(part, out);
  }
};

}  // namespace
}  // namespace infer::cpu
