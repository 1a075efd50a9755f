// IQ2_S: for each eight weights a 10-bit codebook index, whose upper two bits lie apart, and a byte
// of signs; 4-bit scales of 16.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid<1024, 2> kGrid(kIq2SGrid);

struct Weights {
  static constexpr DType kType = DType::iq2_s;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 82;
  using Sub = Sub16<107, 6>;
  using Head = Iq2Scales<74>;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints low = dword(block, 2, part);
    const Ints signs = dword(block, 34, part);
    const Ints high = dword(block, 66, part / 4) >> (part % 4 * 8);
    const Lookup levels(kIq2Codes.codes);
    for (int l = 0; l < 4; ++l) {
      const Ints index = byte_of(low, l) | (((high >> (2 * l)) & Ints::set(3)) << 8);
      set_iq2(l, kGrid.find(index), signs, levels, out.codes);
    }
    head.apply(part, out);
  }
};

}  // namespace
}  // namespace infer::cpu
