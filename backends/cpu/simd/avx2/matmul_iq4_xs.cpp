// IQ4_XS × 8-bit: sub-blocks of 32 with 6-bit scales; the levels come out of a table of sixteen.
#include "backends/cpu/simd/avx2/row_kernel.h"
#include "engine/quant/iq4_levels.h"

namespace infer::cpu {
namespace {

struct Iq4Xs {
  struct Block {
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
  };

  template <int C>
  static void dot(const std::byte* w, int64_t k, const Q8Row* x, float* y) {
    const auto* blocks = reinterpret_cast<const Block*>(w);
    __m256 sums[C];
    for (int c = 0; c < C; ++c) sums[c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < k / 256; ++b) {
      const Block& block = blocks[b];
      const float d = half_to_float(block.d);
      for (int j = 0; j < 8; ++j) {
        const int low = (block.scales_l[j / 2] >> (j % 2 * 4)) & 15;
        const int high = (block.scales_h >> (2 * j)) & 3;
        const float scale = d * static_cast<float>((low | (high << 4)) - 32);
        const __m256i levels = look_up_nibbles(block.qs + 16 * j, kIq4Levels);
        for (int c = 0; c < C; ++c) {
          sums[c] = add_dots(sums[c], dot_s8_s8(levels, load32(x[c].q() + b * 256 + j * 32)),
                             scale * x[c].d()[b * 8 + j]);
        }
      }
    }
    for (int c = 0; c < C; ++c) y[c] = hsum(sums[c]);
  }
};

}  // namespace

const RowKernel& matmul_iq4_xs_avx2() {
  static const RowKernel kernel{DType::iq4_xs, run_rows<Iq4Xs>};
  return kernel;
}

}  // namespace infer::cpu
