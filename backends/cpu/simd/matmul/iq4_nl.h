// IQ4_NL.
#pragma once

#include "backends/cpu/simd/iq4_codes.h"

namespace infer::cpu {
namespace {

struct Weights {
  static constexpr DType kType = DType::iq4_nl;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 18;
  using Sub = Sub32Wide;
  using Head = Scale;

  [[gnu::always_inline]] static void sub(const std::byte* block, const Head& head, int, Sub& out) {
    set_levels(block, 2, Lookup(kIq4Codes.codes), out.codes);
    out.scale = head.d;
  }
};

}  // namespace
}  // namespace infer::cpu
