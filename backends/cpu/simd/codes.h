// Codes and their products over add_dot4, which sums products of bytes in 32 bits: included by
// isa.h.
#pragma once

#include "backends/cpu/simd/halves.h"

namespace infer::cpu {
namespace {

/// Whether codes of eight bits are multiplied as fast as smaller ones.
constexpr bool kByteCodes = true;

/// Whether `dot` takes what its sum begins with.
constexpr bool kDotsBegin = true;

/// What is subtracted from codes of eight bits, and signed bytes as such codes.
constexpr int kWideZero = 128;
Ints wide_codes(Ints a) { return a ^ Ints::set(static_cast<int32_t>(0x80808080)); }

/// The unsigned codes 0..kMax of 32 weights in a row for each lane: bytes 4j..4j+3 in v[j].
template <int kMax>
struct Codes {
  Ints v[8];
  void set(int j, Ints codes) { v[j] = codes; }
};

/// start + Σ codes·q over 32 weights.
template <int kMax>
[[gnu::always_inline]] inline Ints dot(const Codes<kMax>& codes, const int8_t* q,
                                       Ints start = Ints::set(0)) {
  // Two chains, because the instruction's latency is several times its rate.
  Ints odd = Ints::set(0);
  for (int j = 0; j < 8; j += 2) {
    start = add_dot4(start, codes.v[j], q + 4 * j);
    odd = add_dot4(odd, codes.v[j + 1], q + 4 * j + 4);
  }
  return start + odd;
}

/// Σ (low + 32·high)·q over 32 weights.
[[gnu::always_inline]] inline Ints dot_both(const Codes<31>& low, const Codes<31>& high,
                                            const int8_t* q) {
  Ints lows = Ints::set(0), highs = lows;
  for (int j = 0; j < 8; ++j) {
    lows = add_dot4(lows, low.v[j], q + 4 * j);
    highs = add_dot4(highs, high.v[j], q + 4 * j);
  }
  return lows + (highs << 5);
}

/// start + Σ codes·q over either half of 32 weights.
template <int kMax>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q,
                                           HalfSums start, Apart) {
  for (int j = 0; j < 4; ++j) {
    start.first = add_dot4(start.first, codes.v[j], q + 4 * j);
    start.second = add_dot4(start.second, codes.v[j + 4], q + 4 * j + 16);
  }
  return start;
}
template <int kMax>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q, Apart apart) {
  return dot(codes, q, HalfSums{Ints::set(0), Ints::set(0)}, apart);
}

/// Scales of the two halves of 32 weights whose codes are 2^kBits too large; below zero: codes as
/// they are. Floats hold them and their products exactly, and multiply faster.
template <int kBits>
struct HalfScales {
  Floats first, second;
  HalfScales() = default;
  HalfScales(Ints a, Ints b) : first(to_float(a)), second(to_float(b)) {}

  /// Σ scale·(code − 2^kBits)·q from the halves' products and Σq of either half.
  [[gnu::always_inline]] Floats total(auto dots, const int16_t* sums) const {
    HalfSums both;
    if constexpr (kBits >= 0) {
      both = dots(half_offsets<kBits>(sums));
    } else {
      both = dots();
    }
    return fma(to_float(both.first), first, to_float(both.second) * second);
  }
};

template <int kMax, int kBits>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q,
                                           HalfSums start, const HalfScales<kBits>&) {
  return dot(codes, q, start, Apart{});
}
template <int kMax, int kBits>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q,
                                           const HalfScales<kBits>&) {
  return dot(codes, q, Apart{});
}

}  // namespace
}  // namespace infer::cpu
