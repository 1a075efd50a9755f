// Q8_0 × 8-bit: the weight's sign moves to the activation, so that unsigned × signed applies.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q8_0 {
  struct Block {
    uint16_t d;
    int8_t qs[32];
  };

  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const Block*>(w);
    __m256 sums[C];
    for (int c = 0; c < C; ++c) sums[c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < k / 32; ++b) {
      const __m256i codes = load32(blocks[b].qs);
      const __m256i magnitude = _mm256_abs_epi8(codes);
      const float d = half_to_float(blocks[b].d);
      for (int c = 0; c < C; ++c) {
        const __m256i q = _mm256_sign_epi8(load32(x[c].q() + b * 32), codes);
        sums[c] = _mm256_fmadd_ps(_mm256_set1_ps(d * x[c].d()[b]),
                                  _mm256_cvtepi32_ps(dot_u8_s8(magnitude, q)), sums[c]);
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]);
  }
};

}  // namespace

const RowKernel& matmul_q8_0_avx2() {
  static const RowKernel kernel{DType::q8_0, run_rows<Q8_0>};
  return kernel;
}

}  // namespace infer::cpu
