// Q4_0 × 8-bit: codes stay unsigned (0..15), the offset of 8 goes through the block sums.
#include "backends/cpu/simd/avx2/row_kernel.h"

namespace infer::cpu {
namespace {

struct Q4_0 {
  struct Block {
    uint16_t half_d;
    uint8_t qs[16];
  };
  static __m256i codes(const Block& b) { return unpack_nibbles(b.qs); }
  static float d(const Block& b) { return half_to_float(b.half_d); }
  static float offset(const Block& b) { return -8.0f * d(b); }
};

}  // namespace

const RowKernel& matmul_q4_0_avx2() {
  static const RowKernel kernel{DType::q4_0, run_rows<Unsigned32<Q4_0>>};
  return kernel;
}

}  // namespace infer::cpu
