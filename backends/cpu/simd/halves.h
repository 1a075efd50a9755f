// Products of 32 weights whose halves have scales of their own: included by codes.h.
#pragma once

namespace infer::cpu {
namespace {

/// Σ codes·q over either half of 32 weights.
struct HalfSums {
  Ints first, second;
};
HalfSums operator+(HalfSums a, HalfSums b) { return {a.first + b.first, a.second + b.second}; }

/// Says that `dot` leaves the halves apart.
struct Apart {};

/// −2^kBits·Σq of either half, from Σq: what codes that are 2^kBits too large add too much.
template <int kBits>
[[gnu::always_inline]] inline HalfSums half_offsets(const int16_t* sums) {
  const Ints offset = Ints::set(-(1 << kBits));
  const Ints none = Ints::set(0);
  return {pair_product(pairs(offset, none), sums), pair_product(pairs(none, offset), sums)};
}

}  // namespace
}  // namespace infer::cpu
