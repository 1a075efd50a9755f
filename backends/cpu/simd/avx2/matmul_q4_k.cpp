// Q4_K × 8-bit.
#include "backends/cpu/simd/avx2/k_minima.h"

namespace infer::cpu {
namespace {

struct Q4_K {
  struct Block {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qs[128];
  };
  static __m256i codes(const Block& b, int j) { return k_nibbles(b.qs, j); }
};

}  // namespace

const RowKernel& matmul_q4_k_avx2() {
  static const RowKernel kernel{DType::q4_k, run_rows<KMinima<Q4_K>>};
  return kernel;
}

}  // namespace infer::cpu
