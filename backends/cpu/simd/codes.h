// Codes and their products over add_dot4, which sums products of bytes in 32 bits: included by
// isa.h.
#pragma once

namespace infer::cpu {
namespace {

/// What is subtracted from codes of eight bits, and signed bytes as such codes.
constexpr int kWideZero = 128;
Ints wide_codes(Ints a) { return a ^ Ints::set(static_cast<int32_t>(0x80808080)); }

/// The unsigned codes 0..kMax of 32 weights in a row for each lane: bytes 4j..4j+3 in v[j].
template <int kMax>
struct Codes {
  Ints v[8];
  void set(int j, Ints codes) { v[j] = codes; }
};

template <int kMax>
[[gnu::always_inline]] inline Ints dot_part(const Codes<kMax>& codes, const int8_t* q, int begin,
                                            int end) {
  // Two chains, because the instruction's latency is several times its rate.
  Ints even = Ints::set(0), odd = even;
  for (int j = begin; j < end; j += 2) {
    even = add_dot4(even, codes.v[j], q + 4 * j);
    odd = add_dot4(odd, codes.v[j + 1], q + 4 * j + 4);
  }
  return even + odd;
}

/// Σ codes·q over 32 weights.
template <int kMax>
[[gnu::always_inline]] inline Ints dot(const Codes<kMax>& codes, const int8_t* q) {
  return dot_part(codes, q, 0, 8);
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

/// Σ codes·q over either half of 32 weights.
struct HalfSums {
  Ints first, second;
};

/// Says that `dot` leaves the halves apart.
struct Apart {};

template <int kMax>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q, Apart) {
  return {dot_part(codes, q, 0, 4), dot_part(codes, q, 4, 8)};
}

/// Scales of the two halves of 32 weights whose codes are 2^kBits too large; below zero: codes as
/// they are. Floats hold them and their products exactly, and multiply faster.
template <int kBits>
struct HalfScales {
  Floats first, second;
  HalfScales() = default;
  HalfScales(Ints a, Ints b) : first(to_float(a)), second(to_float(b)) {}

  /// Σ scale·(code − 2^kBits)·q from what `dot` returns and Σq of either half.
  [[gnu::always_inline]] Floats total(HalfSums dots, const int16_t* sums) const {
    if constexpr (kBits >= 0) {
      dots.first = dots.first - Ints::set(sums[0] * (1 << kBits));
      dots.second = dots.second - Ints::set(sums[1] * (1 << kBits));
    }
    return fma(to_float(dots.first), first, to_float(dots.second) * second);
  }
};

template <int kMax, int kBits>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q,
                                           const HalfScales<kBits>&) {
  return dot(codes, q, Apart{});
}

}  // namespace
}  // namespace infer::cpu
