// What Q4_K and Q5_K share: 8 sub-blocks of 32 with 6-bit scales and minima; codes are unsigned and
// the minima go through the block sums.
#pragma once

#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

/// The eight scales (bytes 0–7) and eight minima (bytes 8–15) of 6 bits, from 12 packed bytes: the
/// first four of each lie in the low 6 bits, the others in nibbles and the two top bits.
inline __m128i unpack_scales(const uint8_t* packed) {
  uint32_t u[3];
  __builtin_memcpy(u, packed, sizeof(u));
  constexpr uint32_t kSix = 0x3f3f3f3f;
  constexpr uint32_t kNibble = 0x0f0f0f0f;
  constexpr uint32_t kTwo = 0x03030303;
  const uint32_t scales_high = (u[2] & kNibble) | (((u[0] >> 6) & kTwo) << 4);
  const uint32_t mins_high = ((u[2] >> 4) & kNibble) | (((u[1] >> 6) & kTwo) << 4);
  return _mm_setr_epi32(static_cast<int>(u[0] & kSix), static_cast<int>(scales_high),
                        static_cast<int>(u[1] & kSix), static_cast<int>(mins_high));
}

/// Type::Block with d, dmin, scales; Type::codes(block, j) → the 32 codes of sub-block j, below 64.
template <typename Type>
struct KMinima {
  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const typename Type::Block*>(w);
    __m256 sums[C];
    __m256 minima[C];
    for (int c = 0; c < C; ++c) sums[c] = minima[c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < k / 256; ++b) {
      const __m128i packed = unpack_scales(blocks[b].scales);
      const __m256 d = _mm256_set1_ps(half_to_float(blocks[b].d));
      const __m256 dmin = _mm256_set1_ps(half_to_float(blocks[b].dmin));
      alignas(32) float scales[8];
      _mm256_store_ps(scales, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(packed))));
      const __m256 mins = _mm256_mul_ps(
          dmin, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(packed, packed))));
      for (int c = 0; c < C; ++c) {
        minima[c] = _mm256_fmadd_ps(mins, _mm256_loadu_ps(x[c].s() + b * 8), minima[c]);
      }
      for (int j = 0; j < 8; ++j) {
        const __m256i codes = Type::codes(blocks[b], j);
        for (int c = 0; c < C; ++c) {
          sums[c] = add_dots(sums[c], dot_u8_s8(codes, load32(x[c].q() + b * 256 + j * 32)),
                             scales[j] * x[c].d()[b * 8 + j]);
        }
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(_mm256_sub_ps(sums[c], minima[c]));
  }
};

/// The nibbles of sub-block j: two sub-blocks share 32 bytes.
inline __m256i k_nibbles(const uint8_t* qs, int j) {
  const __m256i raw = load32(qs + j / 2 * 32);
  const __m256i shifted = j % 2 == 0 ? raw : _mm256_srli_epi16(raw, 4);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(0xf));
}

}  // namespace
}  // namespace infer::cpu
