// Arithmetic. Kernels are compiled without joining multiplications and additions (-fmad=false):
// what is to be one operation is spelt out as fused(). So the host's compiler and nvcc give the
// same bits.
#pragma once

#ifndef INFER_CUDA_EMULATED

#include "backends/cuda/device/block.h"

namespace infer::cuda {

INFER_DEVICE uint32_t bits_of(float x) { return __float_as_uint(x); }
INFER_DEVICE float float_of(uint32_t bits) { return __uint_as_float(bits); }
/// A float16 in the low half of the bits.
INFER_DEVICE float half_of(uint32_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<uint16_t>(bits)));
  return x;
}
/// To the nearest float16, halves to even.
INFER_DEVICE uint32_t half_bits(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
/// Two float16 in a register, the first one in the low half, each to the nearest.
INFER_DEVICE uint32_t packed_halves(float low, float high) {
#if __CUDA_ARCH__ >= 800
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return half_bits(low) | half_bits(high) << 16;
#endif
}
/// a + b of two pairs of float16.
INFER_DEVICE uint32_t add_halves(uint32_t a, uint32_t b) {
  uint32_t sums;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sums) : "r"(a), "r"(b));
  return sums;
}
/// a · b of two pairs of float16.
INFER_DEVICE uint32_t multiply_halves(uint32_t a, uint32_t b) {
  uint32_t products;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(products) : "r"(a), "r"(b));
  return products;
}
/// a · b + c of pairs of float16, each rounded once.
INFER_DEVICE uint32_t fused_halves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sums;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(a), "r"(b), "r"(c));
  return sums;
}
/// Two float16 limited to −most … most, which is a float16; a NaN becomes −most.
INFER_DEVICE uint32_t limited_pair(uint32_t pair, float most) {
#if __CUDA_ARCH__ >= 800
  uint32_t limited;
  asm("{ .reg .b32 m; max.f16x2 m, %1, %2; min.f16x2 %0, m, %3; }"
      : "=r"(limited)
      : "r"(pair), "r"(packed_halves(-most, -most)), "r"(packed_halves(most, most)));
  return limited;
#else
  return packed_halves(fminf(fmaxf(half_of(pair), -most), most),
                       fminf(fmaxf(half_of(pair >> 16), -most), most));
#endif
}
/// packed_halves() of what is limited to −most … most, which is a float16.
INFER_DEVICE uint32_t limited_halves(float low, float high, float most) {
#if __CUDA_ARCH__ >= 900
  return limited_pair(packed_halves(low, high), most);
#else
  return packed_halves(fminf(fmaxf(low, -most), most), fminf(fmaxf(high, -most), most));
#endif
}
/// Half `which` of a pair in both halves.
INFER_DEVICE uint32_t twice_half(uint32_t pair, uint32_t which) {
  uint32_t both;
  if (which == 0) {
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l}; }" : "=r"(both) : "r"(pair));
  } else {
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h}; }" : "=r"(both) : "r"(pair));
  }
  return both;
}
/// 2^x to within 2^-22 of it; below the normal numbers 0. The instruction's bits are a GPU's own.
INFER_DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x to within 2^-23 of it; of an infinity 0. The instruction's bits are a GPU's own.
INFER_DEVICE float inverse_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// The value in a register: the compiler does not know it, so that it does not make it anew for
/// every use.
INFER_DEVICE int32_t opaque(int32_t x) {
  int32_t y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
/// a·b + c, rounded once.
INFER_DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
/// The other one where one is NaN.
INFER_DEVICE float least_of(float a, float b) { return fminf(a, b); }
INFER_DEVICE float most_of(float a, float b) { return fmaxf(a, b); }
/// To the nearest whole number, halves to even.
INFER_DEVICE float rounded(float x) { return rintf(x); }
INFER_DEVICE float root_of(float x) { return __fsqrt_rn(x); }
INFER_DEVICE uint32_t bits_set(uint32_t x) { return __popc(x); }
/// Byte i of the result is the byte of (high, low) that nibble i of `select` names; bit 3 of the
/// nibble asks for its sign in all bits.
INFER_DEVICE uint32_t permute(uint32_t low, uint32_t high, uint32_t select) {
  uint32_t all;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(low), "r"(high), "r"(select));
  return all;
}
/// Σ of four signed products, added.
INFER_DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t sum) {
  return __dp4a(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
}
/// The same with unsigned bytes in `a`.
INFER_DEVICE int32_t dot4_unsigned(uint32_t a, uint32_t b, int32_t sum) {
  int32_t all;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(all) : "r"(a), "r"(b), "r"(sum));
  return all;
}

}  // namespace infer::cuda

#endif

namespace infer::cuda {

INFER_DEVICE float infinity() { return float_of(0x7f800000u); }
INFER_DEVICE float magnitude_of(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
INFER_DEVICE bool is_nan(float x) { return (bits_of(x) & 0x7fffffffu) > 0x7f800000u; }

/// e^x to within two units in the last place: x = n·ln 2 + r, |r| ≤ ln 2 / 2, and the series of e^r
/// (to r^7 / 7!: below 2^-27 of it).
INFER_DEVICE float exp_of(float x) {
  const float c = least_of(most_of(x, -104.0f), 89.0f);
  const float n = rounded(c * 1.44269504088896341f);
  float r = fused(n, -0.693145751953125f, c);  // the upper bits of ln 2: n times them is exact
  r = fused(n, -1.42860682030941723e-6f, r);
  float p = 1.0f / 5040.0f;
  p = fused(p, r, 1.0f / 720.0f);
  p = fused(p, r, 1.0f / 120.0f);
  p = fused(p, r, 1.0f / 24.0f);
  p = fused(p, r, 1.0f / 6.0f);
  p = fused(p, r, 0.5f);
  p = fused(p, r, 1.0f);
  p = fused(p, r, 1.0f);
  // 2^n in two factors, so that neither leaves the normal numbers.
  const int32_t whole = static_cast<int32_t>(n);
  const int32_t lower = whole / 2;
  float y = p * float_of(static_cast<uint32_t>(lower + 127) << 23);
  y = y * float_of(static_cast<uint32_t>(whole - lower + 127) << 23);
  return is_nan(x) ? x : y;
}

INFER_DEVICE float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

INFER_DEVICE float tanh_of(float x) {
  const float a = magnitude_of(x);
  if (a < 0.25f) {  // the quotient below would lose what the subtraction cancels
    const float s = x * x;
    float p = 62.0f / 2835.0f - s * (1382.0f / 155925.0f);
    p = -17.0f / 315.0f + s * p;
    p = 2.0f / 15.0f + s * p;
    p = -1.0f / 3.0f + s * p;
    return x + x * s * p;
  }
  const float y = 1.0f - 2.0f / (exp_of(2.0f * least_of(a, 20.0f)) + 1.0f);
  return is_nan(x) ? x : (x < 0.0f ? -y : y);
}

}  // namespace infer::cuda
