// AArch64 Advanced SIMD, with the dot products of ARMv8.2 and the matrix products of ARMv8.6 where
// the compiler's flags allow them. A vector is a pair of registers: there are 32 of them, and eight
// rows share the loads of an activation.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace infer::cpu {
namespace {

/// Code without these vectors needs nothing of them.
void end_vectors() {}

/// Eight floats.
struct F {
  static constexpr int kWidth = 8;
  float32x4_t lo, hi;

  static F load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  void store(float* p) const {
    vst1q_f32(p, lo);
    vst1q_f32(p + 4, hi);
  }
  /// binary16.
  static F load_half(const void* p) {
    return widened(vreinterpretq_f16_u8(vld1q_u8(static_cast<const uint8_t*>(p))));
  }
  void store_half(void* p) const {
    const float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(lo), hi);
    vst1q_u8(static_cast<uint8_t*>(p), vreinterpretq_u8_f16(halves));
  }
  static F load_signed_bytes(const int8_t* p) {
    const int16x8_t words = vmovl_s8(vld1_s8(p));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))), vcvtq_f32_s32(vmovl_high_s16(words))};
  }
  static F set(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static F zero() { return set(0.0f); }
  /// Of a number and what is none, none.
  static F min(F a, F b) { return {vminq_f32(a.lo, b.lo), vminq_f32(a.hi, b.hi)}; }
  static F max(F a, F b) { return {vmaxq_f32(a.lo, b.lo), vmaxq_f32(a.hi, b.hi)}; }
  static F abs(F a) { return {vabsq_f32(a.lo), vabsq_f32(a.hi)}; }
  static F round(F a) { return {vrndnq_f32(a.lo), vrndnq_f32(a.hi)}; }
  static F pow2(F n) { return {pow2(n.lo), pow2(n.hi)}; }
  static F zero_where_below(F a, F x, F limit) {
    return {zero_where(vcltq_f32(x.lo, limit.lo), a.lo),
            zero_where(vcltq_f32(x.hi, limit.hi), a.hi)};
  }
  /// By halves, as every instruction set does it.
  float sum() const {
    const float32x4_t four = vaddq_f32(lo, hi);
    return vaddv_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
  }
  float highest() const { return vmaxvq_f32(vmaxq_f32(lo, hi)); }

  /// to[i][j] = from[j][i] for 0 ≤ i, j < kWidth; rows are a pitch apart.
  static void transpose(const float* from, int64_t from_pitch, float* to, int64_t to_pitch) {
    for (int64_t i = 0; i < 8; i += 4) {
      for (int64_t j = 0; j < 8; j += 4) {
        const float* at = from + j * from_pitch + i;
        store_transposed(vld1q_f32(at), vld1q_f32(at + from_pitch), vld1q_f32(at + 2 * from_pitch),
                         vld1q_f32(at + 3 * from_pitch), to + i * to_pitch + j, to_pitch);
      }
    }
  }

 private:
  static F widened(float16x8_t halves) {
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
  }
  static float32x4_t pow2(float32x4_t n) {
    const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
  }
  static float32x4_t zero_where(uint32x4_t mask, float32x4_t a) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), mask));
  }
  /// The first two, or the last two, elements of each.
  static float32x4_t first(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static float32x4_t last(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static void store_transposed(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d,
                               float* to, int64_t pitch) {
    const float32x4_t ab_even = vtrn1q_f32(a, b);
    const float32x4_t ab_odd = vtrn2q_f32(a, b);
    const float32x4_t cd_even = vtrn1q_f32(c, d);
    const float32x4_t cd_odd = vtrn2q_f32(c, d);
    vst1q_f32(to, first(ab_even, cd_even));
    vst1q_f32(to + pitch, first(ab_odd, cd_odd));
    vst1q_f32(to + 2 * pitch, last(ab_even, cd_even));
    vst1q_f32(to + 3 * pitch, last(ab_odd, cd_odd));
  }
};

F operator+(F a, F b) { return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)}; }
F operator-(F a, F b) { return {vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)}; }
F operator*(F a, F b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
F operator/(F a, F b) { return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)}; }
F fma(F a, F b, F c) { return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)}; }

/// Eight lanes of 32 bits, or four bytes in each.
struct I {
  static constexpr int kLanes = 8;
  uint32x4_t lo, hi;

  static I load(const void* p) {
    const auto* bytes = static_cast<const uint8_t*>(p);
    return {vreinterpretq_u32_u8(vld1q_u8(bytes)), vreinterpretq_u32_u8(vld1q_u8(bytes + 16))};
  }
  /// One unsigned byte, or two bytes, for each lane.
  static I load_bytes(const void* p) {
    return widened(vmovl_u8(vld1_u8(static_cast<const uint8_t*>(p))));
  }
  static I load_words(const void* p) {
    return widened(vreinterpretq_u16_u8(vld1q_u8(static_cast<const uint8_t*>(p))));
  }
  /// Lanes within a signed byte, as bytes.
  void store_bytes(void* p) const {
    vst1_u8(static_cast<uint8_t*>(p), vmovn_u16(vmovn_high_u32(vmovn_u32(lo), hi)));
  }
  static I set(int32_t x) {
    const uint32x4_t v = vdupq_n_u32(static_cast<uint32_t>(x));
    return {v, v};
  }
  /// Of every byte.
  I high_nibbles() const { return {high_nibbles(lo), high_nibbles(hi)}; }
  /// table[lane].
  static I gather(const uint32_t* table, I index) {
    return {gather(table, index.lo), gather(table, index.hi)};
  }

 private:
  static I widened(uint16x8_t words) {
    return {vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)};
  }
  static uint32x4_t high_nibbles(uint32x4_t v) {
    return vreinterpretq_u32_u8(vshrq_n_u8(vreinterpretq_u8_u32(v), 4));
  }
  static uint32x4_t gather(const uint32_t* table, uint32x4_t index) {
    return uint32x4_t{table[index[0]], table[index[1]], table[index[2]], table[index[3]]};
  }
};

I operator&(I a, I b) { return {a.lo & b.lo, a.hi & b.hi}; }
I operator|(I a, I b) { return {a.lo | b.lo, a.hi | b.hi}; }
I operator^(I a, I b) { return {a.lo ^ b.lo, a.hi ^ b.hi}; }
I operator+(I a, I b) { return {a.lo + b.lo, a.hi + b.hi}; }
I operator-(I a, I b) { return {a.lo - b.lo, a.hi - b.hi}; }
I operator*(I a, I b) { return {a.lo * b.lo, a.hi * b.hi}; }
I operator<<(I a, int n) { return {a.lo << n, a.hi << n}; }
/// Zeros come in from above.
I operator>>(I a, int n) { return {a.lo >> n, a.hi >> n}; }

F to_float(I a) {
  return {vcvtq_f32_s32(vreinterpretq_s32_u32(a.lo)), vcvtq_f32_s32(vreinterpretq_s32_u32(a.hi))};
}
I to_int(F a) {
  return {vreinterpretq_u32_s32(vcvtnq_s32_f32(a.lo)), vreinterpretq_u32_s32(vcvtnq_s32_f32(a.hi))};
}
F as_float(I a) { return {vreinterpretq_f32_u32(a.lo), vreinterpretq_f32_u32(a.hi)}; }

/// The low 16 bits of each lane as binary16.
F half_low(I a) {
  return {vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(a.lo))),
          vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(a.hi)))};
}

/// Sixteen bytes to look up.
struct Table {
  int8x16_t v;
  explicit Table(const int8_t* bytes) : v(vld1q_s8(bytes)) {}
  /// For each byte below 16 of `index`.
  I operator()(I index) const { return {look_up(index.lo), look_up(index.hi)}; }

 private:
  uint32x4_t look_up(uint32x4_t index) const {
    return vreinterpretq_u32_s8(vqtbl1q_s8(v, vreinterpretq_u8_u32(index)));
  }
};

/// The instruction whose rate is the ceiling of 8-bit products, for both registers, in chains that
/// the compiler must not shorten; and how many they multiply.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kByteProducts = 64;
#elif defined(__ARM_FEATURE_DOTPROD)
constexpr int kByteProducts = 32;
#else
constexpr int kByteProducts = 16;
#endif
I byte_products(I chain) {
  const int8x16_t ones = vdupq_n_s8(1);
  for (uint32x4_t* half : {&chain.lo, &chain.hi}) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    *half = vreinterpretq_u32_s32(vmmlaq_s32(vreinterpretq_s32_u32(*half), ones, ones));
#elif defined(__ARM_FEATURE_DOTPROD)
    *half = vreinterpretq_u32_s32(vdotq_s32(vreinterpretq_s32_u32(*half), ones, ones));
#else
    *half = vreinterpretq_u32_s16(vmlal_high_s8(vreinterpretq_s16_u32(*half), ones, ones));
#endif
    asm volatile("" : "+w"(*half));
  }
  return chain;
}

/// For each lane a pair of signed 16-bit numbers, as pair_product takes them: in either register
/// the first of every lane, then the second.
I pairs(I low, I high) {
  const auto halves = [](uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u16(vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)));
  };
  return {halves(low.lo, high.lo), halves(low.hi, high.hi)};
}

/// a.low·b.low + a.high·b.high, with the pair b for all lanes.
I pair_product(I a, const int16_t* b) {
  const auto product = [b](uint32x4_t v) {
    const int16x8_t both = vreinterpretq_s16_u32(v);
    const int32x4_t low = vmull_n_s16(vget_low_s16(both), b[0]);
    return vreinterpretq_u32_s32(vmlal_high_n_s16(low, both, b[1]));
  };
  return {product(a.lo), product(a.hi)};
}

// A group of interleaved rows is one vector wide.
using Floats = F;
using Ints = I;
using Lookup = Table;

}  // namespace
}  // namespace infer::cpu

#include "backends/cpu/simd/neon/codes.h"
