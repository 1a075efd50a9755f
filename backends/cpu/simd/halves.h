// What the codes of an instruction set (codes.h) offer, each of which includes this file:
//   kColumnsAtOnce<Codes, Dots>: how many columns `dot` is best called with
//   dot(codes, q, start, …): start + Σ codes·q over 32 weights of one column
//   dot(codes, {q, …}, sums, …): adds Σ codes·q to the sums of as many columns
// Sums are Ints, or HalfSums where the halves of the 32 weights have scales of their own.
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

/// The codes low + 32·high of 32 weights in a row for each lane.
template <typename Part>
struct SplitCodes {
  Part low, high;
};

/// −2^kBits·Σq of either half, from Σq: what codes that are 2^kBits too large add too much.
template <int kBits>
[[gnu::always_inline]] inline HalfSums half_offsets(const int16_t* sums) {
  const Ints offset = Ints::set(-(1 << kBits));
  const Ints none = Ints::set(0);
  return {pair_product(pairs(offset, none), sums), pair_product(pairs(none, offset), sums)};
}

}  // namespace
}  // namespace infer::cpu
