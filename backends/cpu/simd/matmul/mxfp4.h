// MXFP4: a power of two as a byte, then levels by nibbles as in Q4_0.
#pragma once

#include "backends/cpu/simd/fp4_codes.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::mxfp4;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 17;
  using Sub = Sub32Offset<28, 4>;

  /// 2^(e − 128), made of two powers so that the smallest need no subnormal bits.
  struct Head {
    Floats d;
    explicit Head(const std::byte* block) {
      const Ints e = Ints::load_bytes(block);
      const Ints first = e >> 1;
      const Ints second = e - first;
      const Ints bias = Ints::set(127 - 64);
      d = as_float((first + bias) << 23) * as_float((second + bias) << 23);
    }
  };

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    set_levels(block, 1, Lookup(kFp4Codes.codes), out.codes);
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
