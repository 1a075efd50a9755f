// IQ3_S: codebook indices of four weights as bytes with a ninth bit apart, a sign bit a weight, and
// 4-bit scales of 32.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid<512, 4> kGrid(kIq3SGrid);
constexpr int kZero = 16;
constexpr SignedLevels<3, 8> kCodes(kIq3SLevels, kZero);

struct Weights {
  static constexpr DType kType = DType::iq3_s;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 110;
  using Sub = Sub32Offset<31, 4>;

  struct Head {
    Floats d;
    Ints scales;
    explicit Head(const std::byte* block) : d(half(block, 0)), scales(dword(block, 106)) {}
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints ninth = byte_of(dword(block, 66, part / 4), part % 4);
    const Ints signs = dword(block, 74, part);
    const Lookup levels(kCodes.codes);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const Ints low = byte_of(dword(block, 2, 2 * part + j / 4), j % 4);
      const Ints index = low | (((ninth >> j) & Ints::set(1)) << 8);
      set_iq3(j, kGrid.find(index), signs, levels, out.codes);
    }
    const Ints s = (head.scales >> (4 * part)) & Ints::set(15);
    out.scale = head.d * to_float(s + s + Ints::set(1));
  }
};

}  // namespace
}  // namespace infer::cpu
