// TQ1_0: ternary weights, five digits of base 3 in a byte; one scale.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

constexpr int kPowersOfThree[] = {1, 3, 9, 27, 81};

struct Weights {
  static constexpr DType kType = DType::tq1_0;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 54;
  using Sub = Sub32Offset<2, 0>;

  struct Head {
    Floats d;
    explicit Head(const std::byte* block) : d(half(block, 52)) {}
  };

  /// Digit k of each byte: three times the byte, without what the digits before it carried, carries
  /// it into the ninth bit.
  [[gnu::always_inline]] static Ints digit(Ints bytes, int k) {
    const Ints low = Ints::set(0x00ff00ff);
    const auto carried = [&](Ints words) __attribute__((always_inline)) {
      const Ints rest = (words * Ints::set(kPowersOfThree[k])) & low;
      return ((rest + rest + rest) >> 8) & low;
    };
    return carried(bytes & low) | (carried((bytes >> 8) & low) << 8);
  }

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    // Five parts are digits of 32 bytes; two and a half, of 16; the rest, of four.
    if (part < 5) {
      for (int j = 0; j < 8; ++j) out.codes.set(j, digit(dword(block, 0, j), part));
    } else {
      for (int j = 0; j < 4; ++j) {
        const Ints bytes = dword(block, 32, j);
        const int first = 2 * (part - 5);
        out.codes.set(j, digit(bytes, first));
        out.codes.set(j + 4, part < 7 ? digit(bytes, first + 1) : digit(dword(block, 48), j));
      }
    }
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
