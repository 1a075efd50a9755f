// What the IQ1 types share: eight times (level ± ⅛) as codes.
#pragma once

#include "backends/cpu/simd/iq_codes.h"

namespace infer::cpu {
namespace {

constexpr Grid<2048, 2> kIq1Entries(kIq1Grid);
constexpr int kIq1Zero = 16;

/// By the level's number and, above its two bits, the sign of ⅛.
constexpr struct Iq1Codes {
  int8_t codes[16] = {};
  constexpr Iq1Codes() {
    for (int i = 0; i < 4; ++i) {
      const int level = kIq1Zero + 8 * static_cast<int>(kIq1Levels[i]);
      codes[i] = static_cast<int8_t>(level + 1);
      codes[i + 4] = static_cast<int8_t>(level - 1);
    }
  }
} kIq1Codes;

/// Codes 8·eighth… by the lower eight bits of an index, the upper ones (the lowest three bits of
/// `high`) and the lowest bit of `sign`.
template <int kMax>
[[gnu::always_inline]] inline void set_iq1(int eighth, Ints low, Ints high, Ints sign,
                                           const Lookup& levels, Codes<kMax>& codes) {
  const Ints entry = kIq1Entries.find(low | ((high & Ints::set(7)) << 8));
  const Ints one = (sign & Ints::set(1)) << 2;
  const Ints two = one | (one << 8);
  const Ints four = two | (two << 16);
  codes.set(2 * eighth, levels(low_nibbles(entry) | four));
  codes.set(2 * eighth + 1, levels(high_nibbles(entry) | four));
}

}  // namespace
}  // namespace infer::cpu
