// Codes and their products where both factors are signed bytes: included by isa.h. Codes up to 127
// are the same signed or not, and wide ones are left signed.
#pragma once

#include "backends/cpu/simd/halves.h"

namespace infer::cpu {
namespace {

/// Whether codes of eight bits are multiplied as fast as smaller ones.
constexpr bool kByteCodes = false;

/// What is subtracted from codes of eight bits, and signed bytes as such codes.
constexpr int kWideZero = 0;
I wide_codes(I a) { return a; }

/// The codes of 32 weights in a row for each lane, 0..kMax, or signed bytes if that is 255: bytes
/// 4j..4j+3 in lo[j] and hi[j].
template <int kMax>
struct Codes {
  static_assert(kMax <= 127 || kMax == 255);
  int8x16_t lo[8], hi[8];
  void set(int j, I codes) {
    lo[j] = vreinterpretq_s8_u32(codes.lo);
    hi[j] = vreinterpretq_s8_u32(codes.hi);
  }
};

#ifdef __ARM_FEATURE_DOTPROD

/// sum + Σ codes·q over 16 weights of four rows.
[[gnu::always_inline]] inline int32x4_t add_dot16(int32x4_t sum, const int8x16_t* codes,
                                                  int8x16_t q) {
  sum = vdotq_laneq_s32(sum, codes[0], q, 0);
  sum = vdotq_laneq_s32(sum, codes[1], q, 1);
  sum = vdotq_laneq_s32(sum, codes[2], q, 2);
  return vdotq_laneq_s32(sum, codes[3], q, 3);
}

/// Σ codes·q over the `kCount` weights, 16 or 32, from `kFirst` on.
template <int kMax, int kFirst, int kCount>
[[gnu::always_inline]] inline I dot_part(const Codes<kMax>& codes, const int8_t* q) {
  int32x4_t lo = vdupq_n_s32(0);
  int32x4_t hi = lo;
#pragma GCC unroll 2
  for (int i = kFirst; i < kFirst + kCount; i += 16) {
    const int8x16_t sixteen = vld1q_s8(q + i);
    lo = add_dot16(lo, codes.lo + i / 4, sixteen);
    hi = add_dot16(hi, codes.hi + i / 4, sixteen);
  }
  return {vreinterpretq_u32_s32(lo), vreinterpretq_u32_s32(hi)};
}

#else

/// Σ codes·q over the `kCount` weights, 16 or 32, from `kFirst` on. Products are summed in 16 bits
/// as far as kMax allows.
template <int kMax, int kFirst, int kCount>
[[gnu::always_inline]] inline I dot_part(const Codes<kMax>& codes, const int8_t* q) {
  constexpr int kMost = 32767 / ((kMax == 255 ? 128 : kMax) * 127);
  constexpr int kRun = kMost >= kCount / 4 ? kCount / 4 : kMost >= 4 ? 4 : 2;
  static_assert(kMost >= 2);
  constexpr int kBegin = kFirst / 4;
  constexpr int kEnd = kBegin + kCount / 4;
  int32x4_t sums[4];  // two rows each, with two sums a row
#pragma GCC unroll 8
  for (int from = kBegin; from < kEnd; from += kRun) {
    int16x8_t run[4];
#pragma GCC unroll 8
    for (int j = from; j < from + kRun; ++j) {
      const int32x4_t sixteen = vreinterpretq_s32_s8(vld1q_s8(q + j / 4 * 16));
      const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(sixteen[j % 4]));
      const int8x16_t rows[2] = {codes.lo[j], codes.hi[j]};
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const int8x8_t first = vget_low_s8(rows[i]);
        run[2 * i] = j == from ? vmull_s8(first, vget_low_s8(four))
                               : vmlal_s8(run[2 * i], first, vget_low_s8(four));
        run[2 * i + 1] =
            j == from ? vmull_high_s8(rows[i], four) : vmlal_high_s8(run[2 * i + 1], rows[i], four);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      sums[i] = from == kBegin ? vpaddlq_s16(run[i]) : vpadalq_s16(sums[i], run[i]);
    }
  }
  return {vreinterpretq_u32_s32(vpaddq_s32(sums[0], sums[1])),
          vreinterpretq_u32_s32(vpaddq_s32(sums[2], sums[3]))};
}

#endif

template <int kMax>
[[gnu::always_inline]] inline I dot(const Codes<kMax>& codes, const int8_t* q, I start) {
  return start + dot_part<kMax, 0, 32>(codes, q);
}

template <int kMax>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q,
                                           HalfSums start, Apart) {
  return start + HalfSums{dot_part<kMax, 0, 16>(codes, q), dot_part<kMax, 16, 16>(codes, q)};
}

template <typename Part>
[[gnu::always_inline]] inline I dot(const SplitCodes<Part>& codes, const int8_t* q, I start) {
  return dot(codes.low, q, start) + (dot(codes.high, q, I::set(0)) << 5);
}

/// Scales (16 bits, signed) of the two halves of 32 weights whose codes are 2^kBits too large;
/// below zero: codes as they are.
template <int kBits>
struct HalfScales {
  I first, second, offsets;
  HalfScales() = default;
  HalfScales(I a, I b) : first(a), second(b), offsets(pairs(negative(a), negative(b))) {}

  /// What the scaled products of both halves begin with, from Σq of either.
  [[gnu::always_inline]] I start(const int16_t* sums) const {
    return kBits < 0 ? I::set(0) : pair_product(offsets, sums);
  }
  /// Σ scale·(code − 2^kBits)·q.
  [[gnu::always_inline]] F total(I dots) const { return to_float(dots); }

 private:
  static I negative(I a) { return kBits < 0 ? a : I::set(0) - (a << (kBits < 0 ? 0 : kBits)); }
};

/// first·Σ codes·q over 16 weights + second·Σ over the next 16.
template <int kMax, int kBits>
[[gnu::always_inline]] inline I dot(const Codes<kMax>& codes, const int8_t* q, I start,
                                    const HalfScales<kBits>& scales) {
  return start + dot_part<kMax, 0, 16>(codes, q) * scales.first +
         dot_part<kMax, 16, 16>(codes, q) * scales.second;
}

#ifdef __ARM_FEATURE_MATMUL_INT8

/// The instruction multiplies with two columns.
template <typename C, typename Dots>
constexpr int kColumnsAtOnce = 2;

/// Sums of two rows by two columns each, of eight rows.
struct Squares {
  int32x4_t of[4];

  I columns(int c) const {
    const auto pick = [c](int32x4_t a, int32x4_t b) {
      return vreinterpretq_u32_s32(c == 0 ? vuzp1q_s32(a, b) : vuzp2q_s32(a, b));
    };
    return {pick(of[0], of[1]), pick(of[2], of[3])};
  }
};

/// The first or the last 8 bytes of each.
int8x16_t eights(int8x16_t a, int8x16_t b, bool first) {
  const int64x2_t x = vreinterpretq_s64_s8(a);
  const int64x2_t y = vreinterpretq_s64_s8(b);
  return vreinterpretq_s8_s64(first ? vzip1q_s64(x, y) : vzip2q_s64(x, y));
}

/// Rows 0 and 1 (first) or 2 and 3 of dwords a and b: eight codes of each.
int8x16_t two_rows(int8x16_t a, int8x16_t b, bool first) {
  const int32x4_t x = vreinterpretq_s32_s8(a);
  const int32x4_t y = vreinterpretq_s32_s8(b);
  return vreinterpretq_s8_s32(first ? vzip1q_s32(x, y) : vzip2q_s32(x, y));
}

/// As dot_part.
template <int kMax, int kFirst, int kCount>
[[gnu::always_inline]] inline Squares dot_part(const Codes<kMax>& codes, const int8_t* q0,
                                               const int8_t* q1) {
  Squares sums{};
#pragma GCC unroll 4
  for (int i = kFirst; i < kFirst + kCount; i += 8) {
    const int8x16_t q = eights(vld1q_s8(q0 + i / 16 * 16), vld1q_s8(q1 + i / 16 * 16), i % 16 == 0);
    const int8x16_t* lo = codes.lo + i / 4;
    const int8x16_t* hi = codes.hi + i / 4;
    sums.of[0] = vmmlaq_s32(sums.of[0], two_rows(lo[0], lo[1], true), q);
    sums.of[1] = vmmlaq_s32(sums.of[1], two_rows(lo[0], lo[1], false), q);
    sums.of[2] = vmmlaq_s32(sums.of[2], two_rows(hi[0], hi[1], true), q);
    sums.of[3] = vmmlaq_s32(sums.of[3], two_rows(hi[0], hi[1], false), q);
  }
  return sums;
}

template <int kMax>
[[gnu::always_inline]] inline void dot(const Codes<kMax>& codes, const int8_t* const (&q)[2],
                                       I (&sums)[2]) {
  const Squares both = dot_part<kMax, 0, 32>(codes, q[0], q[1]);
  for (int c = 0; c < 2; ++c) sums[c] = sums[c] + both.columns(c);
}

template <int kMax, int kBits>
[[gnu::always_inline]] inline void dot(const Codes<kMax>& codes, const int8_t* const (&q)[2],
                                       I (&sums)[2], const HalfScales<kBits>& scales) {
  const Squares a = dot_part<kMax, 0, 16>(codes, q[0], q[1]);
  const Squares b = dot_part<kMax, 16, 16>(codes, q[0], q[1]);
  for (int c = 0; c < 2; ++c) {
    sums[c] = sums[c] + a.columns(c) * scales.first + b.columns(c) * scales.second;
  }
}

template <int kMax>
[[gnu::always_inline]] inline void dot(const Codes<kMax>& codes, const int8_t* const (&q)[2],
                                       HalfSums (&sums)[2], Apart) {
  const Squares a = dot_part<kMax, 0, 16>(codes, q[0], q[1]);
  const Squares b = dot_part<kMax, 16, 16>(codes, q[0], q[1]);
  for (int c = 0; c < 2; ++c) sums[c] = sums[c] + HalfSums{a.columns(c), b.columns(c)};
}

template <typename Part>
[[gnu::always_inline]] inline void dot(const SplitCodes<Part>& codes, const int8_t* const (&q)[2],
                                       I (&sums)[2]) {
  I highs[2] = {I::set(0), I::set(0)};
  dot(codes.low, q, sums);
  dot(codes.high, q, highs);
  for (int c = 0; c < 2; ++c) sums[c] = sums[c] + (highs[c] << 5);
}

#else

template <typename C, typename Dots>
constexpr int kColumnsAtOnce = 1;

#endif

}  // namespace
}  // namespace infer::cpu
