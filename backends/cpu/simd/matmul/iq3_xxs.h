// IQ3_XXS: codebook indices of four weights as bytes, then for each 32 a dword of four times seven
// signs and a 4-bit scale.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid<256, 4> kGrid(kIq3XxsGrid);
constexpr int kZero = 64;
constexpr SignedLevels<3, 8> kCodes(kIq3XxsLevels, kZero);

struct Weights {
  static constexpr DType kType = DType::iq3_xxs;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 98;
  using Sub = Sub32Offset<126, 6>;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    const Ints stored = dword(block, 66, part);
    const Ints signs = four_times_eight_signs(stored);
    const Lookup levels(kCodes.codes);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const Ints index = byte_of(dword(block, 2, 2 * part + j / 4), j % 4);
      set_iq3(j, kGrid.find(index), signs, levels, out.codes);
    }
    out.scale = head.d * (to_float(stored >> 28) + Floats::set(0.5f)) * Floats::set(0.5f);
  }
};

}  // namespace
}  // namespace infer::cpu
