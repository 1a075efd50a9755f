// MXFP4 × 8-bit: twice the 4-bit floats come out of a table of sixteen, half the scale is exact.
#include "backends/cpu/simd/avx2/row_kernel.h"
#include "engine/quant/fp4_levels.h"

namespace infer::cpu {
namespace {

struct Mxfp4 {
  struct Block {
    uint8_t e;
    uint8_t qs[16];
  };
  static __m256i levels(const Block& b) { return look_up_nibbles(b.qs, kFp4Levels); }
  /// 2^(e − 128); the two smallest are subnormal.
  static float d(const Block& b) {
    const uint32_t bits = b.e < 2 ? 0x00200000u << b.e : static_cast<uint32_t>(b.e - 1) << 23;
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
  }
};

}  // namespace

const RowKernel& matmul_mxfp4_avx2() {
  static const RowKernel kernel{DType::mxfp4, run_rows<Signed32<Mxfp4>>};
  return kernel;
}

}  // namespace infer::cpu
