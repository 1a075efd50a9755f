// The levels of NF4 and FP4 as codes of ten bits: level ≈ kStep·code + kLeast. With codes of eight
// bits, the error of NF4's levels would be as large as that of the activations.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

/// `Levels`: kCodes[16] in 0..1023, kStep, kLeast.
template <DType kDType, typename Levels>
struct AbsmaxWeights {
  static constexpr DType kType = kDType;
  static constexpr int kBlock = 64;
  static constexpr int kBytes = 34;  ///< the scale in binary16: packing.h
  using Sub = Sub32TenBits;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int part,
                                         Sub& out) {
    set_levels(block, 2 + 16 * part, Lookup(kBytesOfCodes.low), out.codes.low);
    set_levels(block, 2 + 16 * part, Lookup(kBytesOfCodes.high), out.codes.high);
    out.scale = head.d * Floats::set(Levels::kStep);
    out.min = head.d * Floats::set(Levels::kLeast);
  }

 private:
  static constexpr struct BytesOfCodes {
    int8_t low[16] = {};
    int8_t high[16] = {};
    constexpr BytesOfCodes() {
      for (int i = 0; i < 16; ++i) {
        low[i] = static_cast<int8_t>(Levels::kCodes[i] % 32);
        high[i] = static_cast<int8_t>(Levels::kCodes[i] / 32);
      }
    }
  } kBytesOfCodes{};
};

}  // namespace
}  // namespace infer::cpu
