// IQ4_XS: 6-bit scales of eight parts of 32: nibbles in four bytes, the upper two bits in a word.
#pragma once

#include "backends/cpu/simd/iq4_codes.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::iq4_xs;
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 136;
  using Sub = Sub32Wide;

  struct Head {
    Ints low, high;
    Floats d;
    explicit Head(const std::byte* block)
        : low(dword(block, 4)), high(Ints::load_words(block + 2 * kR)), d(half(block, 0)) {}
    Floats scale(int part) const {
      const Ints nibble = (low >> (4 * part)) & Ints::set(15);
      const Ints upper = ((high >> (2 * part)) & Ints::set(3)) << 4;
      return d * to_float((nibble | upper) - Ints::set(32));
    }
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    set_levels(block, 8 + part * 16, Lookup(kIq4Codes.codes), out.codes);
    out.scale = head.scale(part);
  }
};

}  // namespace
}  // namespace infer::cpu
