// Q2_0: 64 weights, one binary16 scale d; value = d·(q − 1), q in 0..3. Weight i lies in bits
// 2(i % 4) and 2(i % 4) + 1 of byte i / 4.
#pragma once

#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q2_0> {
  struct Block {
    uint16_t d;
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 64) {
      const float d = f16_to_f32(blocks[b].d);
      for (int i = 0; i < 64; ++i) {
        const int q = (blocks[b].qs[i / 4] >> (i % 4 * 2)) & 3;
        out[i] = static_cast<float>(q - 1) * d;
      }
    }
  }
};

}  // namespace infer
