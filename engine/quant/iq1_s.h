// IQ1_S: 256 weights in 8 sub-blocks of 32; value = (d·(2s + 1))·(level + δ), δ = ±⅛. Eight weights
// i have an index of kIq1Grid: qs[i] and three more bits, from bit 3(i % 4) of qh[i / 4];
// bits 12..14 of qh[j] are s of sub-block j, bit 15 is set where δ is negative.
#pragma once

#include "engine/quant/iq_decode.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq1_s> {
  struct Block {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int i = 0; i < 32; ++i, out += 8) {
        const uint16_t qh = block.qh[i / 4];
        const float scale = d * static_cast<float>(2 * ((qh >> 12) & 7) + 1);
        const int index = block.qs[i] | (((qh >> (i % 4 * 3)) & 7) << 8);
        put_iq1(kIq1Grid[index], (qh & 0x8000) != 0 ? -0.125f : 0.125f, scale, out);
      }
    }
  }
};

}  // namespace infer
