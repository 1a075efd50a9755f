// Q5_0 × 8-bit: codes stay unsigned (0..31), the offset of 16 goes through the block sums.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q5_0 {
  struct Block {
    uint16_t half_d;
    uint8_t qh[4];
    uint8_t qs[16];
  };
  static __m256i codes(const Block& b) { return codes_of_5_bits(b.qs, b.qh); }
  static float d(const Block& b) { return half_to_float(b.half_d); }
  static float offset(const Block& b) { return -16.0f * d(b); }
};

}  // namespace

const RowKernel& matmul_q5_0_avx2() {
  static const RowKernel kernel{DType::q5_0, run_rows<Unsigned32<Q5_0>>};
  return kernel;
}

}  // namespace infer::cpu
