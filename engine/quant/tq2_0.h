// TQ2_0: 256 ternary weights, one binary16 scale d; value = d·(q − 1), q in 0..2.
// Weight 128h + 32k + l lies in bits 2k and 2k+1 of qs[32h + l].
#pragma once

#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::tq2_0> {
  struct Block {
    uint8_t qs[64];
    uint16_t d;
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 256) {
      const float d = f16_to_f32(blocks[b].d);
      for (int i = 0; i < 256; ++i) {
        const int q = (blocks[b].qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        out[i] = static_cast<float>(q - 1) * d;
      }
    }
  }
};

}  // namespace infer
