// IQ3_S: 256 weights in 8 sub-blocks of 32; value = ±(d·(1 + 2s))·level. Four weights i have an
// index of kIq3SGrid: qs[i] and a ninth bit, bit i % 8 of qh[i / 8]; weight n has sign bit n % 8 of
// signs[n / 8]; s of sub-block j is nibble j of scales.
#pragma once

#include "engine/quant/iq_decode.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq3_s> {
  struct Block {
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int i = 0; i < 64; ++i, out += 4) {
        const int s = (block.scales[i / 16] >> (i % 16 / 8 * 4)) & 15;
        const float scale = d * static_cast<float>(1 + 2 * s);
        const int index = block.qs[i] | (((block.qh[i / 8] >> (i % 8)) & 1) << 8);
        put_iq3(kIq3SGrid[index], kIq3SLevels, block.signs[i / 2] >> (i % 2 * 4), scale, out);
      }
    }
  }
};

}  // namespace infer
