// Q2_K × 8-bit: 16 sub-blocks of 16 with 4-bit scales and minima; the minima go through the sums.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q2_K {
  struct Block {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d, dmin;
  };

  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const Block*>(w);
    const __m256i three = _mm256_set1_epi8(3);
    __m256 sums[C];
    float minima[C];
    for (int c = 0; c < C; ++c) {
      sums[c] = _mm256_setzero_ps();
      minima[c] = 0;
    }
    for (int64_t b = 0; b < k / 256; ++b) {
      const Block& block = blocks[b];
      const float d = half_to_float(block.d);
      const float dmin = half_to_float(block.dmin);
      for (int j = 0; j < 8; ++j) {  // 32 weights: sub-blocks 2j and 2j + 1
        const __m256i raw = load32(block.qs + j / 4 * 32);
        const __m256i codes =
            _mm256_and_si256(_mm256_srl_epi16(raw, _mm_cvtsi32_si128(j % 4 * 2)), three);
        const uint8_t s0 = block.scales[2 * j];
        const uint8_t s1 = block.scales[2 * j + 1];
        const __m256i scales = halves(s0 & 15, s1 & 15);
        for (int c = 0; c < C; ++c) {
          const __m256i pairs = _mm256_maddubs_epi16(codes, load32(x[c].q() + b * 256 + j * 32));
          const int16_t* part = x[c].sums() + b * 16 + j * 2;
          const float a = x[c].d()[b * 8 + j];
          sums[c] = add_dots(sums[c], _mm256_madd_epi16(pairs, scales), d * a);
          minima[c] += dmin * a * static_cast<float>((s0 >> 4) * part[0] + (s1 >> 4) * part[1]);
        }
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]) - minima[c];
  }
};

}  // namespace

const RowKernel& matmul_q2_k_avx2() {
  static const RowKernel kernel{DType::q2_k, run_rows<Q2_K>};
  return kernel;
}

}  // namespace infer::cpu
