// The baseline: vectors of four as the compiler offers them everywhere.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/core/half.h"

namespace infer::cpu {
namespace {

/// Code without these vectors needs nothing of them.
void end_vectors() {}

/// Four floats.
struct F {
  static constexpr int kWidth = 4;
  typedef float Vector __attribute__((vector_size(16)));
  typedef int32_t Mask __attribute__((vector_size(16)));
  Vector v;

  static F load(const float* p) {
    F f;
    std::memcpy(&f.v, p, sizeof(f.v));
    return f;
  }
  void store(float* p) const { std::memcpy(p, &v, sizeof(v)); }
  /// binary16.
  static F load_half(const void* p) {
    uint16_t h[4];
    std::memcpy(h, p, sizeof(h));
    return {Vector{f16_to_f32(h[0]), f16_to_f32(h[1]), f16_to_f32(h[2]), f16_to_f32(h[3])}};
  }
  void store_half(void* p) const {
    const uint16_t h[4] = {f32_to_f16(v[0]), f32_to_f16(v[1]), f32_to_f16(v[2]), f32_to_f16(v[3])};
    std::memcpy(p, h, sizeof(h));
  }
  static F load_signed_bytes(const int8_t* p) {
    return {Vector{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
                   static_cast<float>(p[3])}};
  }
  static F set(float x) { return {Vector{x, x, x, x}}; }
  static F zero() { return set(0.0f); }
  static F min(F a, F b) { return {a.v < b.v ? a.v : b.v}; }
  static F max(F a, F b) { return {a.v > b.v ? a.v : b.v}; }
  static F abs(F a) { return {std::bit_cast<Vector>(std::bit_cast<Mask>(a.v) & 0x7fffffff)}; }
  /// To the nearest, for |a| < 2^22: adding 1.5·2^23 leaves no bits behind the point.
  static F round(F a) {
    const Vector shift = set(12582912.0f).v;
    Vector moved = a.v + shift;
    asm("" : "+m"(moved));  // keeps the compiler from cancelling the sum
    return {moved - shift};
  }
  static F pow2(F n) {
    return {std::bit_cast<Vector>((__builtin_convertvector(n.v, Mask) + 127) << 23)};
  }
  static F zero_where_below(F a, F x, F limit) { return {x.v < limit.v ? zero().v : a.v}; }
  /// By halves, as every instruction set does it.
  float sum() const { return (v[0] + v[2]) + (v[1] + v[3]); }
  float highest() const {
    const float a = v[0] > v[1] ? v[0] : v[1];
    const float b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
  }

  /// to[i][j] = from[j][i] for 0 ≤ i, j < kWidth; rows are a pitch apart.
  static void transpose(const float* from, int64_t from_pitch, float* to, int64_t to_pitch) {
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 4; ++j) to[i * to_pitch + j] = from[j * from_pitch + i];
    }
  }
};

F operator+(F a, F b) { return {a.v + b.v}; }
F operator-(F a, F b) { return {a.v - b.v}; }
F operator*(F a, F b) { return {a.v * b.v}; }
F operator/(F a, F b) { return {a.v / b.v}; }

#ifdef __FP_FAST_FMAF
F fma(F a, F b, F c) {
  F sum;
  for (int i = 0; i < F::kWidth; ++i) sum.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return sum;
}
#else
/// Rounded once, as the instruction does it that this processor does not have: the product is exact
/// in double. The sum there is rounded to odd (Boldo and Melquiond 2008): where it is not exact its
/// last bit becomes 1, so that rounding it to float does not round twice.
F fma(F a, F b, F c) {
  typedef double Wide __attribute__((vector_size(32)));
  typedef int64_t Bits __attribute__((vector_size(32)));
  const Wide product = __builtin_convertvector(a.v, Wide) * __builtin_convertvector(b.v, Wide);
  const Wide addend = __builtin_convertvector(c.v, Wide);
  const Wide sum = product + addend;
  const Wide part = sum - product;
  const Wide lost = (product - (sum - part)) + (addend - part);
  Bits bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  // Away from zero where what is lost has the sum's sign, else towards it. Of infinities and of
  // what is no number nothing is greater or less.
  const Bits above = (lost > 0) & ((bits & 1) - 1);
  const Bits below = (lost < 0) & ((bits & 1) - 1);
  const Bits negative = bits >> 63;
  const Bits step = (above ^ negative) - negative - ((below ^ negative) - negative);
  bits -= step;
  Wide odd;
  std::memcpy(&odd, &bits, sizeof(odd));
  return {__builtin_convertvector(odd, F::Vector)};
}
#endif

/// Four lanes of 32 bits, or four bytes in each.
struct I {
  static constexpr int kLanes = 4;
  typedef uint32_t Vector __attribute__((vector_size(16)));
  typedef int32_t Signed __attribute__((vector_size(16)));
  Vector v;

  static I load(const void* p) {
    I i;
    std::memcpy(&i.v, p, sizeof(i.v));
    return i;
  }
  /// One unsigned byte, or two bytes, for each lane.
  static I load_bytes(const void* p) {
    uint8_t b[4];
    std::memcpy(b, p, sizeof(b));
    return {Vector{b[0], b[1], b[2], b[3]}};
  }
  static I load_words(const void* p) {
    uint16_t w[4];
    std::memcpy(w, p, sizeof(w));
    return {Vector{w[0], w[1], w[2], w[3]}};
  }
  /// Lanes within a signed byte, as bytes.
  void store_bytes(void* p) const {
    const uint8_t b[4] = {static_cast<uint8_t>(v[0]), static_cast<uint8_t>(v[1]),
                          static_cast<uint8_t>(v[2]), static_cast<uint8_t>(v[3])};
    std::memcpy(p, b, sizeof(b));
  }
  static I set(int32_t x) {
    const auto u = static_cast<uint32_t>(x);
    return {Vector{u, u, u, u}};
  }
  /// table[lane].
  static I gather(const uint32_t* table, I index) {
    return {Vector{table[index.v[0]], table[index.v[1]], table[index.v[2]], table[index.v[3]]}};
  }
};

I operator&(I a, I b) { return {a.v & b.v}; }
I operator|(I a, I b) { return {a.v | b.v}; }
I operator^(I a, I b) { return {a.v ^ b.v}; }
I operator+(I a, I b) { return {a.v + b.v}; }
I operator-(I a, I b) { return {a.v - b.v}; }
I operator*(I a, I b) { return {a.v * b.v}; }
I operator<<(I a, int n) { return {a.v << n}; }
/// Zeros come in from above.
I operator>>(I a, int n) { return {a.v >> n}; }

F to_float(I a) { return {__builtin_convertvector(std::bit_cast<I::Signed>(a.v), F::Vector)}; }
/// Of integral values.
I to_int(F a) { return {std::bit_cast<I::Vector>(__builtin_convertvector(a.v, I::Signed))}; }
F as_float(I a) { return {std::bit_cast<F::Vector>(a.v)}; }

/// The low 16 bits of each lane as binary16.
F half_low(I a) {
  F f;
  for (int i = 0; i < 4; ++i) f.v[i] = f16_to_f32(static_cast<uint16_t>(a.v[i]));
  return f;
}

/// Sixteen bytes to look up.
struct Table {
  const int8_t* bytes;
  explicit Table(const int8_t* b) : bytes(b) {}
  /// For each byte below 16 of `index`.
  I operator()(I index) const {
    uint8_t b[16];
    std::memcpy(b, &index.v, sizeof(b));
    for (uint8_t& x : b) x = static_cast<uint8_t>(bytes[x]);
    return I::load(b);
  }
};

/// There is no instruction for products of bytes whose rate could be a ceiling.
constexpr int kByteProducts = 0;
I byte_products(I chain) { return chain; }

/// For each lane a pair of signed 16-bit numbers.
I pairs(I low, I high) { return (low & I::set(0xffff)) | (high << 16); }

/// a.low·b.low + a.high·b.high, with the pair b for all lanes.
I pair_product(I a, const int16_t* b) {
  const auto s = std::bit_cast<I::Signed>(a.v);
  return {std::bit_cast<I::Vector>(((s << 16) >> 16) * int32_t{b[0]} + (s >> 16) * int32_t{b[1]})};
}

/// sum + the products of four unsigned codes with the four signed bytes at q.
I add_dot4(I sum, I codes, const int8_t* q) {
  for (int byte = 0; byte < 4; ++byte) {
    sum = sum + ((codes >> (8 * byte)) & I::set(0xff)) * I::set(q[byte]);
  }
  return sum;
}
/// How many sums are best computed in turns (codes.h).
constexpr int kChains = 1;

// A group of interleaved rows is one vector wide.
using Floats = F;
using Ints = I;
using Lookup = Table;

}  // namespace
}  // namespace infer::cpu

#include "backends/cpu/simd/codes.h"
