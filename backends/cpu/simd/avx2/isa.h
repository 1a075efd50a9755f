// AVX2 + FMA + F16C, and AVX-VNNI where the compiler's flags allow it.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace infer::cpu {
namespace {

/// Leaves the registers as code without AVX needs them.
void end_vectors() { _mm256_zeroupper(); }

/// Eight floats.
struct F {
  static constexpr int kWidth = 8;
  __m256 v;

  static F load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  /// binary16.
  static F load_half(const void* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  void store_half(void* p) const {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static F load_signed_bytes(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
  }
  static F set(float x) { return {_mm256_set1_ps(x)}; }
  static F zero() { return {_mm256_setzero_ps()}; }
  static F min(F a, F b) { return {_mm256_min_ps(a.v, b.v)}; }
  static F max(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }
  static F abs(F a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
  static F round(F a) {
    return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static F pow2(F n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
  }
  static F zero_where_below(F a, F x, F limit) {
    return {_mm256_andnot_ps(_mm256_cmp_ps(x.v, limit.v, _CMP_LT_OQ), a.v)};
  }
  /// By halves, as every instruction set does it.
  float sum() const {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  float highest() const {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }

  /// to[i][j] = from[j][i] for 0 ≤ i, j < kWidth; rows are a pitch apart.
  static void transpose(const float* from, int64_t from_pitch, float* to, int64_t to_pitch) {
    // Rows j and j + 4 share a vector from the start, so that no step has to cross the halves.
    for (int64_t i = 0; i < 8; i += 4) {
      __m256 row[4];
      for (int64_t j = 0; j < 4; ++j) {
        const float* at = from + j * from_pitch + i;
        const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(at));
        row[j] = _mm256_insertf128_ps(low, _mm_loadu_ps(at + 4 * from_pitch), 1);
      }
      const __m256 a = _mm256_unpacklo_ps(row[0], row[1]);
      const __m256 b = _mm256_unpacklo_ps(row[2], row[3]);
      const __m256 c = _mm256_unpackhi_ps(row[0], row[1]);
      const __m256 d = _mm256_unpackhi_ps(row[2], row[3]);
      _mm256_storeu_ps(to + i * to_pitch, _mm256_shuffle_ps(a, b, 0x44));
      _mm256_storeu_ps(to + (i + 1) * to_pitch, _mm256_shuffle_ps(a, b, 0xee));
      _mm256_storeu_ps(to + (i + 2) * to_pitch, _mm256_shuffle_ps(c, d, 0x44));
      _mm256_storeu_ps(to + (i + 3) * to_pitch, _mm256_shuffle_ps(c, d, 0xee));
    }
  }
};

F operator+(F a, F b) { return {_mm256_add_ps(a.v, b.v)}; }
F operator-(F a, F b) { return {_mm256_sub_ps(a.v, b.v)}; }
F operator*(F a, F b) { return {_mm256_mul_ps(a.v, b.v)}; }
F operator/(F a, F b) { return {_mm256_div_ps(a.v, b.v)}; }
F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }

/// Eight lanes of 32 bits, or four bytes in each.
struct I {
  static constexpr int kLanes = 8;
  __m256i v;

  static I load(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
  /// One unsigned byte, or two bytes, for each lane.
  static I load_bytes(const void* p) {
    return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)))};
  }
  static I load_words(const void* p) {
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  /// Lanes within a signed byte, as bytes.
  void store_bytes(void* p) const {
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
  static I set(int32_t x) { return {_mm256_set1_epi32(x)}; }
  /// table[lane].
  static I gather(const uint32_t* table, I index) {
    return {_mm256_i32gather_epi32(reinterpret_cast<const int*>(table), index.v, 4)};
  }
};

I operator&(I a, I b) { return {_mm256_and_si256(a.v, b.v)}; }
I operator|(I a, I b) { return {_mm256_or_si256(a.v, b.v)}; }
I operator^(I a, I b) { return {_mm256_xor_si256(a.v, b.v)}; }
I operator+(I a, I b) { return {_mm256_add_epi32(a.v, b.v)}; }
I operator-(I a, I b) { return {_mm256_sub_epi32(a.v, b.v)}; }
I operator*(I a, I b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
I operator<<(I a, int n) { return {_mm256_slli_epi32(a.v, n)}; }
/// Zeros come in from above.
I operator>>(I a, int n) { return {_mm256_srli_epi32(a.v, n)}; }
/// Copies of the sign come in from above.
I signed_right(I a, int n) { return {_mm256_srai_epi32(a.v, n)}; }

F to_float(I a) { return {_mm256_cvtepi32_ps(a.v)}; }
I to_int(F a) { return {_mm256_cvtps_epi32(a.v)}; }
F as_float(I a) { return {_mm256_castsi256_ps(a.v)}; }

/// The low 16 bits of each lane as binary16.
F half_low(I a) {
  const __m256i words = _mm256_and_si256(a.v, _mm256_set1_epi32(0xffff));
  return {_mm256_cvtph_ps(
      _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)))};
}

/// Sixteen bytes to look up.
struct Table {
  __m256i v;
  explicit Table(const int8_t* bytes)
      : v(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)))) {}
  /// For each byte below 16 of `index`.
  I operator()(I index) const { return {_mm256_shuffle_epi8(v, index.v)}; }
};

/// The instruction whose rate is the ceiling of 8-bit products, once, in chains that the compiler
/// must not shorten; and how many it multiplies.
constexpr int kByteProducts = 32;
I byte_products(I chain) {
  chain.v = _mm256_maddubs_epi16(_mm256_set1_epi8(1), chain.v);
  asm volatile("" : "+x"(chain.v));
  return chain;
}

/// Byte `index` of each lane, four times.
I repeat_byte(I a, int index) {
  const __m256i first = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                         0x08080808, 0x04040404, 0);
  return {_mm256_shuffle_epi8(a.v, _mm256_add_epi32(first, _mm256_set1_epi32(0x01010101 * index)))};
}
/// a | x in those bytes in which `bits` has the one bit that `mask` has there.
I or_where(I a, I bits, int32_t mask, int x) {
  const __m256i wanted = _mm256_set1_epi32(mask);
  const __m256i where = _mm256_cmpeq_epi8(_mm256_and_si256(bits.v, wanted), wanted);
  return {_mm256_or_si256(a.v, _mm256_and_si256(where, _mm256_set1_epi8(static_cast<char>(x))))};
}

/// For each lane a pair of signed 16-bit numbers.
I pairs(I low, I high) { return {_mm256_blend_epi16(low.v, (high << 16).v, 0xaa)}; }

/// a.low·b.low + a.high·b.high, with the pair b for all lanes.
I pair_product(I a, const int16_t* b) {
  int32_t both;
  __builtin_memcpy(&both, b, sizeof(both));
  return {_mm256_madd_epi16(a.v, _mm256_set1_epi32(both))};
}

/// Four bytes, for all lanes.
I broadcast4(const int8_t* q) {
  int32_t four;
  __builtin_memcpy(&four, q, sizeof(four));
  return I::set(four);
}

#ifdef __AVXVNNI__
/// sum + the products of four unsigned codes with the four signed bytes at q.
I add_dot4(I sum, I codes, const int8_t* q) {
  return {_mm256_dpbusd_avx_epi32(sum.v, codes.v, broadcast4(q).v)};
}
/// How many sums are best computed in turns (codes.h).
constexpr int kChains = 1;
#endif

// A group of interleaved rows is one vector wide.
using Floats = F;
using Ints = I;
using Lookup = Table;

}  // namespace
}  // namespace infer::cpu

#ifdef __AVXVNNI__
#include "backends/cpu/simd/codes.h"
#else
#include "backends/cpu/simd/avx2/codes.h"
#endif
