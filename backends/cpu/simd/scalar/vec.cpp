// The baseline: plain C++, which the compiler may vectorise for the architecture's common set.
#include <bit>
#include <cmath>
#include <cstdint>

#include "engine/core/half.h"

namespace infer::cpu {
namespace {

struct F {
  static constexpr int kWidth = 1;
  float v;

  static F load(const float* p) { return {*p}; }
  static float f16(uint16_t h) { return infer::f16_to_f32(h); }
  static F from_i8(const int8_t* p) { return {static_cast<float>(*p)}; }
  static F from_f16(const uint16_t* p) { return {infer::f16_to_f32(*p)}; }
  void store(float* p) const { *p = v; }
  static F set(float x) { return {x}; }
  static F zero() { return {0.0f}; }
  static F min(F a, F b) { return {a.v < b.v ? a.v : b.v}; }
  static F max(F a, F b) { return {a.v > b.v ? a.v : b.v}; }
  static F round(F a) { return {static_cast<float>(std::lrint(a.v))}; }
  static F pow2(F n) {
    const long exponent = std::lrint(n.v) + 127;  // defined, if useless, for what is no number
    return {std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23)};
  }
  static F zero_where_below(F a, F x, F limit) { return {x.v < limit.v ? 0.0f : a.v}; }
  static void transpose_f16(const uint16_t* from, int64_t, float* to, int64_t) { *to = f16(*from); }
  float sum() const { return v; }
  static void transpose(const float* from, int64_t, float* to, int64_t) { *to = *from; }
  float highest() const { return v; }
};

F operator+(F a, F b) { return {a.v + b.v}; }
F operator-(F a, F b) { return {a.v - b.v}; }
F operator*(F a, F b) { return {a.v * b.v}; }
F operator/(F a, F b) { return {a.v / b.v}; }
F fma(F a, F b, F c) { return {a.v * b.v + c.v}; }

}  // namespace
}  // namespace infer::cpu

#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

void f16_to_f32(float* y, const uint16_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = infer::f16_to_f32(x[i]);
}
void f32_to_f16(uint16_t* y, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = infer::f32_to_f16(x[i]);
}
void bf16_to_f32(float* y, const uint16_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = infer::bf16_to_f32(x[i]);
}

uint64_t read_all(const std::byte* data, int64_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t sums[4] = {};
  for (int64_t i = 0; i < bytes / 8; i += 4) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] ^= words[i + lane];
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

}  // namespace
}  // namespace infer::cpu

#include "backends/cpu/simd/attention_impl.h"

namespace infer::cpu {

const VecOps& vec_ops_scalar() {
  static const VecOps ops{dot_columns, sum_squares, scale_mul, add_scaled, axpy,
                          max,         exp_sum,     glu,       f16_to_f32, f32_to_f16,
                          bf16_to_f32, nullptr,     read_all,  nullptr,    &kAttentionOps};
  return ops;
}

}  // namespace infer::cpu
