// Q5_1 × 8-bit: the offset of a block goes through the block sums.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q5_1 {
  struct Block {
    uint16_t half_d, half_m;
    uint8_t qh[4];
    uint8_t qs[16];
  };
  static __m256i codes(const Block& b) { return codes_of_5_bits(b.qs, b.qh); }
  static float d(const Block& b) { return half_to_float(b.half_d); }
  static float offset(const Block& b) { return half_to_float(b.half_m); }
};

}  // namespace

const RowKernel& matmul_q5_1_avx2() {
  static const RowKernel kernel{DType::q5_1, run_rows<Unsigned32<Q5_1>>};
  return kernel;
}

}  // namespace infer::cpu
