// Q4_K × 8-bit: 8 sub-blocks of 32 with 6-bit scales and minima; the minima go through the sums.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q4_K {
  struct Block {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qs[128];
  };

  /// The eight scales (bytes 0–7) and eight minima (bytes 8–15) of 6 bits, from 12 packed bytes:
  /// the first four of each lie in the low 6 bits, the others in nibbles and the two top bits.
  static __m128i unpack_scales(const uint8_t* packed) {
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

  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const Block*>(w);
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
      for (int j = 0; j < 4; ++j) {
        const __m256i raw = load32(blocks[b].qs + j * 32);
        const __m256i low = _mm256_and_si256(raw, _mm256_set1_epi8(0xf));
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(raw, 4), _mm256_set1_epi8(0xf));
        for (int c = 0; c < C; ++c) {
          const int8_t* q = x[c].q() + b * 256 + j * 64;
          const float* a = x[c].d() + b * 8 + j * 2;
          sums[c] = _mm256_fmadd_ps(_mm256_set1_ps(scales[2 * j] * a[0]),
                                    _mm256_cvtepi32_ps(dot_u8_s8(low, load32(q))), sums[c]);
          sums[c] = _mm256_fmadd_ps(_mm256_set1_ps(scales[2 * j + 1] * a[1]),
                                    _mm256_cvtepi32_ps(dot_u8_s8(high, load32(q + 32))), sums[c]);
        }
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(_mm256_sub_ps(sums[c], minima[c]));
  }
};

}  // namespace

const RowKernel& matmul_q4_k_avx2() {
  static const RowKernel kernel{DType::q4_k, run_rows<Q4_K>};
  return kernel;
}

}  // namespace infer::cpu
