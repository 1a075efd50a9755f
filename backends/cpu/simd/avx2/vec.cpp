// AVX2 + FMA + F16C.
#include <immintrin.h>

#include <cstdint>

namespace infer::cpu {
namespace {

struct F {
  static constexpr int kWidth = 8;
  __m256 v;

  static F load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static float f16(uint16_t h) { return _cvtsh_ss(h); }
  static F from_i8(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
  }
  static F from_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  static F set(float x) { return {_mm256_set1_ps(x)}; }
  static F zero() { return {_mm256_setzero_ps()}; }
  static F min(F a, F b) { return {_mm256_min_ps(a.v, b.v)}; }
  static F max(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }
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
  static void transpose_f16(const uint16_t* from, int64_t from_pitch, float* to, int64_t to_pitch) {
    __m128i a[8];
    for (int64_t j = 0; j < 8; ++j) {
      a[j] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j * from_pitch));
    }
    // Each step interleaves what is four, two, one rows apart; after three, rows are columns.
    for (int step = 0; step < 3; ++step) {
      __m128i b[8];
      for (int j = 0; j < 4; ++j) {
        b[2 * j] = _mm_unpacklo_epi16(a[j], a[j + 4]);
        b[2 * j + 1] = _mm_unpackhi_epi16(a[j], a[j + 4]);
      }
      for (int j = 0; j < 8; ++j) a[j] = b[j];
    }
    for (int64_t i = 0; i < 8; ++i) _mm256_storeu_ps(to + i * to_pitch, _mm256_cvtph_ps(a[i]));
  }
  float sum() const {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
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
  float highest() const {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
};

F operator+(F a, F b) { return {_mm256_add_ps(a.v, b.v)}; }
F operator-(F a, F b) { return {_mm256_sub_ps(a.v, b.v)}; }
F operator*(F a, F b) { return {_mm256_mul_ps(a.v, b.v)}; }
F operator/(F a, F b) { return {_mm256_div_ps(a.v, b.v)}; }
F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }

}  // namespace
}  // namespace infer::cpu

#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

void f16_to_f32(float* y, const uint16_t* x, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) F::from_f16(x + i).store(y + i);
  for (; i < n; ++i) y[i] = infer::f16_to_f32(x[i]);
}

void f32_to_f16(uint16_t* y, const float* x, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), h);
  }
  for (; i < n; ++i) y[i] = infer::f32_to_f16(x[i]);
}

void bf16_to_f32(float* y, const uint16_t* x, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
    _mm256_storeu_ps(y + i, _mm256_castsi256_ps(wide));
  }
  for (; i < n; ++i) y[i] = infer::bf16_to_f32(x[i]);
}

/// Σ of 16 signed bytes in each half: int32 pairs are summed up to one number a half.
__m256i sum_bytes(__m256i q) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

int32_t sum_lane(__m128i v) {
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
  return _mm_cvtsi128_si32(v);
}

void quantise(const float* x, std::byte* row, int64_t k, int64_t begin, int64_t end) {
  auto* q = reinterpret_cast<int8_t*>(row);
  auto* d = reinterpret_cast<float*>(row + k);
  auto* s = reinterpret_cast<float*>(row + k + k / 8);
  auto* sums = reinterpret_cast<int16_t*>(row + k + k / 4);
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (int64_t b = begin; b < end; ++b) {
    __m256 v[4];
    __m256 most = _mm256_setzero_ps();
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_loadu_ps(x + b * 32 + i * 8);
      most = _mm256_max_ps(most, _mm256_andnot_ps(sign, v[i]));
    }
    const float amax = F{most}.highest();
    const float scale = amax / 127.0f;
    const __m256 inverse = _mm256_set1_ps(amax > 0 ? 127.0f / amax : 0.0f);
    __m256i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
    // Packing works within halves; the permutation restores the order.
    const __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(w[0], w[1]), _mm256_packs_epi32(w[2], w[3]));
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + b * 32), bytes);
    const __m256i quads = sum_bytes(bytes);
    const int32_t low = sum_lane(_mm256_castsi256_si128(quads));
    const int32_t high = sum_lane(_mm256_extracti128_si256(quads, 1));
    d[b] = scale;
    s[b] = scale * static_cast<float>(low + high);
    sums[2 * b] = static_cast<int16_t>(low);
    sums[2 * b + 1] = static_cast<int16_t>(high);
  }
}

uint64_t read_all(const std::byte* data, int64_t bytes) {
  __m256i sums[8] = {};
  for (int64_t i = 0; i < bytes; i += 256) {
    for (int lane = 0; lane < 8; ++lane) {
      const auto* p = reinterpret_cast<const __m256i*>(data + i + lane * 32);
      sums[lane] = _mm256_xor_si256(sums[lane], _mm256_loadu_si256(p));
    }
  }
  for (int lane = 1; lane < 8; ++lane) sums[0] = _mm256_xor_si256(sums[0], sums[lane]);
  return static_cast<uint64_t>(_mm256_extract_epi64(sums[0], 0));
}

/// Twelve independent chains, so that the latency of the instruction is hidden.
int64_t int8_products(int64_t rounds) {
  constexpr int kChains = 12;
  __m256i chains[kChains];
  for (int c = 0; c < kChains; ++c) chains[c] = _mm256_set1_epi8(static_cast<char>(c + 1));
  const __m256i ones = _mm256_set1_epi8(1);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) {
      chains[c] = _mm256_maddubs_epi16(ones, chains[c]);
      asm volatile("" : "+x"(chains[c]));
    }
  }
  return rounds * kChains * 32;
}

}  // namespace
}  // namespace infer::cpu

#include "backends/cpu/simd/attention_impl.h"

namespace infer::cpu {

const VecOps& vec_ops_avx2() {
  static const VecOps ops{dot_columns, sum_squares, scale_mul, add_scaled,    axpy,
                          max,         exp_sum,     glu,       f16_to_f32,    f32_to_f16,
                          bf16_to_f32, quantise,    read_all,  int8_products, &kAttentionOps};
  return ops;
}

}  // namespace infer::cpu
