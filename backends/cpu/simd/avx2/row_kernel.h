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

/// Bit i of `bits` → byte i: 0xff where it is set.
inline __m256i spread_bits(uint32_t bits) {
  const __m256i bytes = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int>(bits)),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i select = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
}

/// Nibbles with the fifth bits above them.
inline __m256i codes_of_5_bits(const uint8_t* nibbles, const uint8_t* high) {
  uint32_t bits;
  __builtin_memcpy(&bits, high, sizeof(bits));
  return _mm256_or_si256(unpack_nibbles(nibbles),
                         _mm256_and_si256(spread_bits(bits), _mm256_set1_epi8(0x10)));
}

/// `low` in the lower and `high` in the upper half.
inline __m256i halves(int16_t low, int16_t high) {
  return _mm256_set_m128i(_mm_set1_epi16(high), _mm_set1_epi16(low));
}

/// The signed levels that the nibbles of 16 bytes stand for: low nibbles, then high nibbles.
inline __m256i look_up_nibbles(const uint8_t* p, const int8_t (&levels)[16]) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), unpack_nibbles(p));
}

/// Σ over quadruples of unsigned × signed bytes, where pairs cannot overflow 16 bits.
inline __m256i dot_u8_s8(__m256i u, __m256i s) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1));
}

/// Σ over quadruples of signed × signed bytes, −128 excluded on the right: the sign of w moves to
/// x.
inline __m256i dot_s8_s8(__m256i w, __m256i x) {
  return dot_u8_s8(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/// sums += scale · dots.
inline __m256 add_dots(__m256 sums, __m256i dots, float scale) {
  return _mm256_fmadd_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(dots), sums);
}

/// Types of 32 weights a block: Type::Block, Type::codes(block) → 32 unsigned codes below 64,
/// Type::d(block), and Type::offset(block): value = d·code + offset.
template <typename Type>
struct Unsigned32 {
  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const typename Type::Block*>(w);
    __m256 sums[C];
    float offsets[C];
    for (int c = 0; c < C; ++c) {
      sums[c] = _mm256_setzero_ps();
      offsets[c] = 0;
    }
    for (int64_t b = 0; b < k / 32; ++b) {
      const __m256i codes = Type::codes(blocks[b]);
      const float d = Type::d(blocks[b]);
      const float offset = Type::offset(blocks[b]);
      for (int c = 0; c < C; ++c) {
        sums[c] = add_dots(sums[c], dot_u8_s8(codes, load32(x[c].q() + b * 32)), d * x[c].d()[b]);
        offsets[c] += offset * x[c].s()[b];
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]) + offsets[c];
  }
};

/// Types of 32 weights a block: Type::Block, Type::levels(block) → 32 signed levels,
/// Type::d(block): value = d·level.
template <typename Type>
struct Signed32 {
  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const typename Type::Block*>(w);
    __m256 sums[C];
    for (int c = 0; c < C; ++c) sums[c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < k / 32; ++b) {
      const __m256i levels = Type::levels(blocks[b]);
      const float d = Type::d(blocks[b]);
      for (int c = 0; c < C; ++c) {
        sums[c] = add_dots(sums[c], dot_s8_s8(levels, load32(x[c].q() + b * 32)), d * x[c].d()[b]);
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]);
  }
};

/// `Kernel::template dot<C>(w, k, rows, y)` gives the products of one weight row with C columns.
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
