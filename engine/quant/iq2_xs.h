// IQ2_XS: 256 weights in 16 sub-blocks of 16; value = ±(d·(½ + s)·¼)·level. A word of qs holds an
// index of kIq2XsGrid (nine bits) and seven sign bits (iq_signs) for eight weights; s of sub-block
// j is nibble j of scales.
#pragma once

#include "engine/quant/iq_decode.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq2_xs> {
  struct Block {
    uint16_t d;
    uint16_t qs[32];
    uint8_t scales[8];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const float d = f16_to_f32(blocks[b].d);
      for (int i = 0; i < 32; ++i, out += 8) {
        const int s = (blocks[b].scales[i / 4] >> (i % 4 / 2 * 4)) & 15;
        const float scale = d * (0.5f + static_cast<float>(s)) * 0.25f;
        const uint16_t q = blocks[b].qs[i];
        put_iq2(kIq2XsGrid[q & 511], iq_signs(q >> 9), scale, out);
      }
    }
  }
};

}  // namespace infer
