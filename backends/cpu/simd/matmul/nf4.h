// NF4.
#pragma once

#include "backends/cpu/simd/absmax_codes.h"

namespace infer::cpu {
namespace {

/// The whole numbers, step and offset that come closest to the levels in the mean over the weights
/// of a normal distribution (least squares, over all steps): a squared error of 7e-7 of theirs.
struct Nf4Codes {
  static constexpr int kCodes[16] = {0,   153, 239, 304, 360, 410, 457, 503,
                                     543, 584, 627, 673, 725, 786, 867, 1006};
  static constexpr float kStep = 0.00198744539f;
  static constexpr float kLeast = -0.999728254f;
};

using Weights = AbsmaxWeights<DType::nf4, Nf4Codes>;

}  // namespace
}  // namespace infer::cpu
