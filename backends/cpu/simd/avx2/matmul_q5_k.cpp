// Q5_K × 8-bit: the fifth bit of the codes of sub-block j is bit j of qh.
#include "backends/cpu/simd/avx2/k_minima.h"

namespace infer::cpu {
namespace {

struct Q5_K {
  struct Block {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
  };
  static __m256i codes(const Block& b, int j) {
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << j));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(load32(b.qh), bit), bit);
    return _mm256_or_si256(k_nibbles(b.qs, j), _mm256_and_si256(set, _mm256_set1_epi8(0x10)));
  }
};

}  // namespace

const RowKernel& matmul_q5_k_avx2() {
  static const RowKernel kernel{DType::q5_k, run_rows<KMinima<Q5_K>>};
  return kernel;
}

}  // namespace infer::cpu
