// IQ2_S: 256 weights in 16 sub-blocks of 16; value = ±(d·(½ + s)·¼)·level. Eight weights i have an
// index of kIq2SGrid, qs[i] and two more bits from bit 2(i % 4) of qh[i / 4], and a byte of signs;
// s of sub-block j is nibble j of scales.
#pragma once

#include "engine/quant/iq_decode.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq2_s> {
  struct Block {
    uint16_t d;
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int i = 0; i < 32; ++i, out += 8) {
        const int s = (block.scales[i / 4] >> (i % 4 / 2 * 4)) & 15;
        const float scale = d * (0.5f + static_cast<float>(s)) * 0.25f;
        const int index = block.qs[i] | (((block.qh[i / 4] >> (i % 4 * 2)) & 3) << 8);
        put_iq2(kIq2SGrid[index], block.signs[i], scale, out);
      }
    }
  }
};

}  // namespace infer
