// IQ4_NL × 8-bit: the levels come out of a table of sixteen.
#include "backends/cpu/simd/avx2/row_kernel.h"
#include "engine/quant/iq4_levels.h"

namespace infer::cpu {
namespace {

struct Iq4Nl {
  struct Block {
    uint16_t half_d;
    uint8_t qs[16];
  };
  static __m256i levels(const Block& b) { return look_up_nibbles(b.qs, kIq4Levels); }
  static float d(const Block& b) { return half_to_float(b.half_d); }
};

}  // namespace

const RowKernel& matmul_iq4_nl_avx2() {
  static const RowKernel kernel{DType::iq4_nl, run_rows<Signed32<Iq4Nl>>};
  return kernel;
}

}  // namespace infer::cpu
