// AVX-512 F, BW, VL and DQ with VNNI.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace infer::cpu {
namespace {

/// Leaves the registers as code without AVX needs them.
void end_vectors() { _mm256_zeroupper(); }

/// Sixteen floats.
struct F {
  static constexpr int kWidth = 16;
  __m512 v;

  static F load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  /// binary16.
  static F load_half(const void* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  void store_half(void* p) const {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static F load_signed_bytes(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  static F set(float x) { return {_mm512_set1_ps(x)}; }
  static F zero() { return {_mm512_setzero_ps()}; }
  static F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
  static F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
  static F abs(F a) { return {_mm512_abs_ps(a.v)}; }
  static F round(F a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static F pow2(F n) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
  }
  static F zero_where_below(F a, F x, F limit) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), a.v)};
  }
  /// By halves, as every instruction set does it.
  float sum() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  float highest() const { return _mm512_reduce_max_ps(v); }

  /// to[i][j] = from[j][i] for 0 ≤ i, j < kWidth; rows are a pitch apart.
  static void transpose(const float* from, int64_t from_pitch, float* to, int64_t to_pitch) {
    __m512 rows[16];
    for (int64_t j = 0; j < 16; ++j) rows[j] = _mm512_loadu_ps(from + j * from_pitch);
    store_transposed(rows, to, to_pitch);
  }

 private:
  static void store_transposed(const __m512* rows, float* to, int64_t pitch) {
    // First the 4 × 4 squares within quarters: quarter l of square[g][c] is column 4l + c of rows
    // 4g to 4g + 3. Then the quarters.
    __m512 square[4][4];
    for (int g = 0; g < 4; ++g) {
      const __m512 a = _mm512_unpacklo_ps(rows[4 * g], rows[4 * g + 1]);
      const __m512 b = _mm512_unpacklo_ps(rows[4 * g + 2], rows[4 * g + 3]);
      const __m512 c = _mm512_unpackhi_ps(rows[4 * g], rows[4 * g + 1]);
      const __m512 d = _mm512_unpackhi_ps(rows[4 * g + 2], rows[4 * g + 3]);
      square[g][0] = _mm512_shuffle_ps(a, b, 0x44);
      square[g][1] = _mm512_shuffle_ps(a, b, 0xee);
      square[g][2] = _mm512_shuffle_ps(c, d, 0x44);
      square[g][3] = _mm512_shuffle_ps(c, d, 0xee);
    }
    for (int64_t c = 0; c < 4; ++c) {
      const __m512 a = _mm512_shuffle_f32x4(square[0][c], square[1][c], 0x88);
      const __m512 b = _mm512_shuffle_f32x4(square[2][c], square[3][c], 0x88);
      const __m512 d = _mm512_shuffle_f32x4(square[0][c], square[1][c], 0xdd);
      const __m512 e = _mm512_shuffle_f32x4(square[2][c], square[3][c], 0xdd);
      _mm512_storeu_ps(to + c * pitch, _mm512_shuffle_f32x4(a, b, 0x88));
      _mm512_storeu_ps(to + (4 + c) * pitch, _mm512_shuffle_f32x4(d, e, 0x88));
      _mm512_storeu_ps(to + (8 + c) * pitch, _mm512_shuffle_f32x4(a, b, 0xdd));
      _mm512_storeu_ps(to + (12 + c) * pitch, _mm512_shuffle_f32x4(d, e, 0xdd));
    }
  }
};

F operator+(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
F operator-(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
F operator*(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
F operator/(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

/// Sixteen lanes of 32 bits, or four bytes in each.
struct I {
  static constexpr int kLanes = 16;
  __m512i v;

  static I load(const void* p) { return {_mm512_loadu_si512(p)}; }
  /// One unsigned byte, or two bytes, for each lane.
  static I load_bytes(const void* p) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static I load_words(const void* p) {
    return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  /// Lanes within a signed byte, as bytes.
  void store_bytes(void* p) const {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }
  static I set(int32_t x) { return {_mm512_set1_epi32(x)}; }
  /// table[lane].
  static I gather(const uint32_t* table, I index) {
    return {_mm512_i32gather_epi32(index.v, table, 4)};
  }
  /// table[index] for each half of a lane. `table` is aligned to 64 bytes. A gather of as many
  /// entries takes several times as long, most of all on AMD.
  template <size_t kSize>
  [[gnu::always_inline]] static I look_up_words(const uint16_t* table, I index) {
    if constexpr (kSize == 64) {
      return {_mm512_permutex2var_epi16(_mm512_load_si512(table), index.v,
                                        _mm512_load_si512(table + 32))};
    } else {
      const I low = look_up_words<kSize / 2>(table, index);
      const I high = look_up_words<kSize / 2>(table + kSize / 2, index);
      const __mmask32 upper = _mm512_test_epi16_mask(index.v, _mm512_set1_epi16(kSize / 2));
      return {_mm512_mask_blend_epi16(upper, low.v, high.v)};
    }
  }
};

I operator&(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
I operator|(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
I operator^(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
I operator+(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
I operator-(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
I operator*(I a, I b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
// Shifts by what is known only at run time have a count in each lane: with one count for all lanes
// they are two operations on Intel's processors.
I operator<<(I a, int n) {
  if (__builtin_constant_p(n)) return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))};
  return {_mm512_sllv_epi32(a.v, _mm512_set1_epi32(n))};
}
/// Zeros come in from above.
I operator>>(I a, int n) {
  if (__builtin_constant_p(n)) return {_mm512_srli_epi32(a.v, static_cast<unsigned>(n))};
  return {_mm512_srlv_epi32(a.v, _mm512_set1_epi32(n))};
}
/// Copies of the sign come in from above.
I signed_right(I a, int n) { return {_mm512_srai_epi32(a.v, static_cast<unsigned>(n))}; }
/// By n to the left, or −n to the right.
I rotated(I a, int n) { return {_mm512_rolv_epi32(a.v, _mm512_set1_epi32(n))}; }

F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
I to_int(F a) { return {_mm512_cvtps_epi32(a.v)}; }
F as_float(I a) { return {_mm512_castsi512_ps(a.v)}; }

/// The low 16 bits of each lane as binary16.
F half_low(I a) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))}; }

/// Sixteen bytes to look up.
struct Table {
  __m512i v;
  explicit Table(const int8_t* bytes)
      : v(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)))) {}
  /// For each byte below 16 of `index`.
  I operator()(I index) const { return {_mm512_shuffle_epi8(v, index.v)}; }
};

/// The instruction whose rate is the ceiling of 8-bit products, once, in chains that the compiler
/// must not shorten; and how many it multiplies.
constexpr int kByteProducts = 64;
I byte_products(I chain) {
  chain.v = _mm512_maddubs_epi16(_mm512_set1_epi8(1), chain.v);
  asm volatile("" : "+v"(chain.v));
  return chain;
}

/// Byte `index` of each lane, four times.
I repeat_byte(I a, int index) {
  const __m512i first = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
  return {_mm512_shuffle_epi8(a.v, _mm512_add_epi32(first, _mm512_set1_epi32(0x01010101 * index)))};
}
/// a | x in those bytes in which `bits` has a bit of `mask`; x has no bit of a.
I or_where(I a, I bits, int32_t mask, int x) {
  const __mmask64 where = _mm512_test_epi8_mask(bits.v, _mm512_set1_epi32(mask));
  return {_mm512_mask_add_epi8(a.v, where, a.v, _mm512_set1_epi8(static_cast<char>(x)))};
}

/// For each lane a pair of signed 16-bit numbers.
I pairs(I low, I high) { return {_mm512_mask_blend_epi16(0xaaaaaaaa, low.v, (high << 16).v)}; }

/// a.low·b.low + a.high·b.high, with the pair b for all lanes.
I pair_product(I a, const int16_t* b) {
  int32_t both;
  __builtin_memcpy(&both, b, sizeof(both));
  return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(both))};
}

/// sum + the products of four unsigned codes with the four signed bytes at q.
I add_dot4(I sum, I codes, const int8_t* q) {
  int32_t four;
  __builtin_memcpy(&four, q, sizeof(four));
  return {_mm512_dpbusd_epi32(sum.v, codes.v, _mm512_set1_epi32(four))};
}
/// How many sums are best computed in turns (codes.h).
constexpr int kChains = 8;

}  // namespace
}  // namespace infer::cpu

#include "backends/cpu/simd/twice.h"

#include "backends/cpu/simd/codes.h"
