// Q4_0 × 8-bit: codes stay unsigned (0..15), the offset of 8 goes through the block sums.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q4_0 {
  struct Block {
    uint16_t d;
    uint8_t qs[16];
  };

  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const Block*>(w);
    __m256 sums[C];
    float offsets[C];
    for (int c = 0; c < C; ++c) {
      sums[c] = _mm256_setzero_ps();
      offsets[c] = 0;
    }
    for (int64_t b = 0; b < k / 32; ++b) {
      const __m256i codes = unpack_nibbles(blocks[b].qs);
      const float d = half_to_float(blocks[b].d);
      for (int c = 0; c < C; ++c) {
        const __m256i products = dot_u8_s8(codes, load32(x[c].q() + b * 32));
        sums[c] =
            _mm256_fmadd_ps(_mm256_set1_ps(d * x[c].d()[b]), _mm256_cvtepi32_ps(products), sums[c]);
        offsets[c] += d * x[c].s()[b];
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]) - 8.0f * offsets[c];
  }
};

}  // namespace

const RowKernel& matmul_q4_0_avx2() {
  static const RowKernel kernel{DType::q4_0, run_rows<Q4_0>};
  return kernel;
}

}  // namespace infer::cpu
