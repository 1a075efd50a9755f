// Codes and their products over add_dot4, which sums products of bytes in 32 bits: included by
// isa.h.
#pragma once

#include "backends/cpu/simd/halves.h"

namespace infer::cpu {
namespace {

/// Whether codes of eight bits are multiplied as fast as smaller ones.
constexpr bool kByteCodes = true;

/// What is subtracted from codes of eight bits, and signed bytes as such codes.
constexpr int kWideZero = 128;
Ints wide_codes(Ints a) { return a ^ Ints::set(static_cast<int32_t>(0x80808080)); }

/// The unsigned codes 0..kMax of 32 weights in a row for each lane: bytes 4j..4j+3 in v[j].
template <int kMax>
struct Codes {
  Ints v[8];
  void set(int j, Ints codes) { v[j] = codes; }
};

/// As many as have kChains sums: a sum can take further products only some cycles later, and the
/// others fill these.
template <typename C, typename Dots>
constexpr int kColumnsAtOnce = kChains * sizeof(I) >= sizeof(Dots)
                                   ? int{kChains * sizeof(I) / sizeof(Dots)}
                                   : 1;
template <typename Part, typename Dots>
constexpr int kColumnsAtOnce<SplitCodes<Part>, Dots> = kColumnsAtOnce<Part, HalfSums>;

/// One column alone has two sums, for the same reason.
template <int kMax>
[[gnu::always_inline]] inline Ints dot(const Codes<kMax>& codes, const int8_t* q, Ints start) {
  Ints odd = Ints::set(0);
  for (int j = 0; j < 8; j += 2) {
    start = add_dot4(start, codes.v[j], q + 4 * j);
    odd = add_dot4(odd, codes.v[j + 1], q + 4 * j + 4);
  }
  return start + odd;
}
template <int kMax, int kColumns>
[[gnu::always_inline]] inline void dot(const Codes<kMax>& codes, const int8_t* const (&q)[kColumns],
                                       Ints (&sums)[kColumns]) {
  for (int j = 0; j < 8; ++j) {
    for (int c = 0; c < kColumns; ++c) sums[c] = add_dot4(sums[c], codes.v[j], q[c] + 4 * j);
  }
}

template <typename Part, int kColumns>
[[gnu::always_inline]] inline void dot(const SplitCodes<Part>& codes,
                                       const int8_t* const (&q)[kColumns], Ints (&sums)[kColumns]) {
  Ints highs[kColumns];
  for (Ints& sum : highs) sum = Ints::set(0);
  for (int j = 0; j < 8; ++j) {
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = add_dot4(sums[c], codes.low.v[j], q[c] + 4 * j);
      highs[c] = add_dot4(highs[c], codes.high.v[j], q[c] + 4 * j);
    }
  }
  for (int c = 0; c < kColumns; ++c) sums[c] = sums[c] + (highs[c] << 5);
}

template <int kMax, int kColumns>
[[gnu::always_inline]] inline void dot(const Codes<kMax>& codes, const int8_t* const (&q)[kColumns],
                                       HalfSums (&sums)[kColumns], Apart) {
  for (int j = 0; j < 4; ++j) {
    for (int c = 0; c < kColumns; ++c) {
      sums[c].first = add_dot4(sums[c].first, codes.v[j], q[c] + 4 * j);
      sums[c].second = add_dot4(sums[c].second, codes.v[j + 4], q[c] + 4 * j + 16);
    }
  }
}

/// Scales of the two halves of 32 weights whose codes are 2^kBits too large; below zero: codes as
/// they are. Floats hold them and their products exactly, and multiply faster.
template <int kBits>
struct HalfScales {
  Floats first, second;
  HalfScales() = default;
  HalfScales(Ints a, Ints b) : first(to_float(a)), second(to_float(b)) {}

  /// What the halves' products begin with, from Σq of either half.
  [[gnu::always_inline]] HalfSums start(const int16_t* sums) const {
    if constexpr (kBits >= 0) return half_offsets<kBits>(sums);
    return {Ints::set(0), Ints::set(0)};
  }
  /// Σ scale·(code − 2^kBits)·q.
  [[gnu::always_inline]] Floats total(HalfSums dots) const {
    return fma(to_float(dots.first), first, to_float(dots.second) * second);
  }
};

template <int kMax, int kColumns, int kBits>
[[gnu::always_inline]] inline void dot(const Codes<kMax>& codes, const int8_t* const (&q)[kColumns],
                                       HalfSums (&sums)[kColumns], const HalfScales<kBits>&) {
  dot(codes, q, sums, Apart{});
}

/// One column of the others, which have two sums a vector by themselves.
template <typename C, typename Dots, typename... Scales>
[[gnu::always_inline]] inline Dots dot(const C& codes, const int8_t* q, Dots start,
                                       const Scales&... scales) {
  const int8_t* const columns[1] = {q};
  Dots sums[1] = {start};
  dot(codes, columns, sums, scales...);
  return sums[0];
}

}  // namespace
}  // namespace infer::cpu
