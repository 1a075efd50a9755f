// Q3_K × 8-bit: 16 sub-blocks of 16 with 6-bit scales; codes stay unsigned (0..7), the offset of 4
// goes through the sums of 16.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q3_K {
  struct Block {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
  };

  static int16_t scale(const Block& b, int j) {
    const int low = (b.scales[j % 8] >> (j / 8 * 4)) & 15;
    const int high = (b.scales[8 + j % 4] >> (j / 4 * 2)) & 3;
    return static_cast<int16_t>((low | (high << 4)) - 32);
  }

  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const Block*>(w);
    const __m256i three = _mm256_set1_epi8(3);
    const __m256i four = _mm256_set1_epi8(4);
    __m256 sums[C];
    for (int c = 0; c < C; ++c) sums[c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < k / 256; ++b) {
      const Block& block = blocks[b];
      const float d = half_to_float(block.d);
      const __m256i mask = load32(block.hmask);
      for (int j = 0; j < 8; ++j) {  // 32 weights: sub-blocks 2j and 2j + 1
        const __m256i raw = load32(block.qs + j / 4 * 32);
        const __m256i low =
            _mm256_and_si256(_mm256_srl_epi16(raw, _mm_cvtsi32_si128(j % 4 * 2)), three);
        const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << j));
        const __m256i high = _mm256_cmpeq_epi8(_mm256_and_si256(mask, bit), bit);
        const __m256i codes = _mm256_or_si256(low, _mm256_and_si256(high, four));
        const int16_t s0 = scale(block, 2 * j);
        const int16_t s1 = scale(block, 2 * j + 1);
        const __m256i scales = halves(s0, s1);
        for (int c = 0; c < C; ++c) {
          const __m256i pairs = _mm256_maddubs_epi16(codes, load32(x[c].q() + b * 256 + j * 32));
          const int16_t* part = x[c].sums() + b * 16 + j * 2;
          const int32_t offset = -4 * (s0 * part[0] + s1 * part[1]);
          const __m256i dots = _mm256_add_epi32(_mm256_madd_epi16(pairs, scales),
                                                _mm256_zextsi128_si256(_mm_cvtsi32_si128(offset)));
          sums[c] = add_dots(sums[c], dots, d * x[c].d()[b * 8 + j]);
        }
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]);
  }
};

}  // namespace

const RowKernel& matmul_q3_k_avx2() {
  static const RowKernel kernel{DType::q3_k, run_rows<Q3_K>};
  return kernel;
}

}  // namespace infer::cpu
