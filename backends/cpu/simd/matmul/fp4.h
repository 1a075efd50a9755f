// FP4 of bitsandbytes.
#pragma once

#include "backends/cpu/simd/absmax_codes.h"

namespace infer::cpu {
namespace {

/// All levels are whole numbers of 1/192.
struct Fp4Codes {
  static constexpr int kCodes[16] = {192, 193, 320, 384, 256, 288, 224, 240,
                                     192, 191, 64,  0,   128, 96,  160, 144};
  static constexpr float kStep = 1.0f / 192;
  static constexpr float kLeast = -1;
};

using Weights = AbsmaxWeights<DType::fp4, Fp4Codes>;

}  // namespace
}  // namespace infer::cpu
