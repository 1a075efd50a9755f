// Q6_K × 8-bit: 16 sub-blocks of 16 with 8-bit scales; codes stay unsigned (0..63), the offset of
// 32 goes through the sums of 16.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q6_K {
  struct Block {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
  };

  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const Block*>(w);
    const __m256i nibble = _mm256_set1_epi8(0xf);
    const __m256i two_bits = _mm256_set1_epi8(0x30);
    __m256 sums[C];
    for (int c = 0; c < C; ++c) sums[c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < k / 256; ++b) {
      const Block& block = blocks[b];
      const float d = half_to_float(block.d);
      const __m256i scales =
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block.scales)));
      alignas(32) int16_t scale[16];
      _mm256_store_si256(reinterpret_cast<__m256i*>(scale), scales);
      for (int half = 0; half < 2; ++half) {
        const __m256i l0 = load32(block.ql + half * 64);
        const __m256i l1 = load32(block.ql + half * 64 + 32);
        const __m256i h = load32(block.qh + half * 32);
        const __m256i codes[4] = {
            _mm256_or_si256(_mm256_and_si256(l0, nibble),
                            _mm256_and_si256(_mm256_slli_epi16(h, 4), two_bits)),
            _mm256_or_si256(_mm256_and_si256(l1, nibble),
                            _mm256_and_si256(_mm256_slli_epi16(h, 2), two_bits)),
            _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l0, 4), nibble),
                            _mm256_and_si256(h, two_bits)),
            _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l1, 4), nibble),
                            _mm256_and_si256(_mm256_srli_epi16(h, 2), two_bits)),
        };
        for (int j = 0; j < 4; ++j) {
          const int sub = half * 4 + j;  // which 32 of the 256
          const __m256i pair_scale = halves(scale[2 * sub], scale[2 * sub + 1]);
          for (int c = 0; c < C; ++c) {
            const __m256i q = load32(x[c].q() + b * 256 + sub * 32);
            const __m256i pairs = _mm256_maddubs_epi16(codes[j], q);
            const int16_t* part = x[c].sums() + b * 16 + sub * 2;
            const int32_t offset = -32 * (scale[2 * sub] * part[0] + scale[2 * sub + 1] * part[1]);
            const __m256i dots =
                _mm256_add_epi32(_mm256_madd_epi16(pairs, pair_scale),
                                 _mm256_zextsi128_si256(_mm_cvtsi32_si128(offset)));
            sums[c] = add_dots(sums[c], dots, d * x[c].d()[b * 8 + sub]);
          }
        }
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]);
  }
};

}  // namespace

const RowKernel& matmul_q6_k_avx2() {
  static const RowKernel kernel{DType::q6_k, run_rows<Q6_K>};
  return kernel;
}

}  // namespace infer::cpu
