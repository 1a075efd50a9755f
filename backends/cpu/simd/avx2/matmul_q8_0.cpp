// Q8_0 × 8-bit.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q8_0 {
  struct Block {
    uint16_t half_d;
    int8_t qs[32];
  };
  static __m256i levels(const Block& b) { return load32(b.qs); }
  static float d(const Block& b) { return half_to_float(b.half_d); }
};

}  // namespace

const RowKernel& matmul_q8_0_avx2() {
  static const RowKernel kernel{DType::q8_0, run_rows<Signed32<Q8_0>>};
  return kernel;
}

}  // namespace infer::cpu
