// The levels of IQ4_NL and IQ4_XS as wide codes.
#pragma once

#include "backends/cpu/simd/rows.h"
#include "engine/quant/iq4_levels.h"

namespace infer::cpu {
namespace {

constexpr struct Iq4Codes {
  int8_t codes[16] = {};
  constexpr Iq4Codes() {
    for (int i = 0; i < 16; ++i) codes[i] = static_cast<int8_t>(kIq4Levels[i] + kWideZero);
  }
} kIq4Codes;

}  // namespace
}  // namespace infer::cpu
