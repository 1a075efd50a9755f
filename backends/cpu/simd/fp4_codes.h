// What the types of 4-bit floats (E2M1) share: their doubled levels as codes.
#pragma once

#include "backends/cpu/simd/rows.h"
#include "engine/quant/fp4_levels.h"

namespace infer::cpu {
namespace {

constexpr int kFp4Zero = 16;  // the levels are −12..12

constexpr struct Fp4Codes {
  int8_t codes[16] = {};
  constexpr Fp4Codes() {
    for (int i = 0; i < 16; ++i) codes[i] = static_cast<int8_t>(kFp4Levels[i] + kFp4Zero);
  }
} kFp4Codes;

}  // namespace
}  // namespace infer::cpu
