// The frame of the AVX2 row kernels: each type supplies how one block of weights meets a tile of
// columns; this walks rows and columns.
#pragma once

#include <immintrin.h>

#include "backends/cpu/kernels.h"
#include "engine/core/half.h"

namespace infer::cpu {
namespace {

inline float hsum(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

inline float half_to_float(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }

inline __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

/// 16 bytes of nibble pairs → 32 bytes: low nibbles, then high nibbles.
inline __m256i unpack_nibbles(const uint8_t* p) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(raw, 4), raw);
  return _mm256_and_si256(both, _mm256_set1_epi8(0xf));
}

/// Σ over quadruples of unsigned × signed bytes, where pairs cannot overflow 16 bits.
inline __m256i dot_u8_s8(__m256i u, __m256i s) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1));
}

/// `Block::template dot<C>(w, k, rows, y)` gives the products of one weight row with C columns.
template <typename Kernel>
void run_rows(const std::byte* w, int64_t stride, int64_t n, int64_t k, const std::byte* const* x,
              float* const* y, int64_t columns) {
  for (int64_t c = 0; c < columns;) {
    const int64_t left = columns - c;
    const int tile = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    Q8Row rows[4];
    for (int t = 0; t < tile; ++t) rows[t] = {x[c + t], k};
    for (int64_t i = 0; i < n; ++i) {
      float sums[4];
      switch (tile) {
        case 4: Kernel::template dot<4>(w + i * stride, k, rows, sums); break;
        case 2: Kernel::template dot<2>(w + i * stride, k, rows, sums); break;
        default: Kernel::template dot<1>(w + i * stride, k, rows, sums); break;
      }
      for (int t = 0; t < tile; ++t) y[c + t][i] = sums[t];
    }
    c += tile;
  }
}

}  // namespace
}  // namespace infer::cpu
