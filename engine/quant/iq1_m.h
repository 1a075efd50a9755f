// IQ1_M: 256 weights in 16 sub-blocks of 16; value = (d·(2s + 1))·(level + δ), δ = ±⅛. Eight
// weights i have an index of kIq1Grid: qs[i] and the low three bits of nibble i of qh, whose fourth
// is set where δ is negative. Each of the four words of scales holds 3-bit s of four sub-blocks
// and, in its top nibble, four bits of the binary16 d, the lowest in the first word.
#pragma once

#include "engine/quant/iq_decode.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq1_m> {
  struct Block {
    uint8_t qs[32];
    uint8_t qh[16];
    uint16_t scales[4];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const Block& block = blocks[b];
      const uint16_t* words = block.scales;
      const int bits = (words[0] >> 12) | ((words[1] >> 12) << 4) | ((words[2] >> 12) << 8) |
                       ((words[3] >> 12) << 12);
      const float d = f16_to_f32(static_cast<uint16_t>(bits));
      for (int i = 0; i < 32; ++i, out += 8) {
        const int s = (words[i / 8] >> (i % 8 / 2 * 3)) & 7;
        const float scale = d * static_cast<float>(2 * s + 1);
        const int high = block.qh[i / 2] >> (i % 2 * 4);
        put_iq1(kIq1Grid[block.qs[i] | ((high & 7) << 8)], (high & 8) != 0 ? -0.125f : 0.125f,
                scale, out);
      }
    }
  }
};

}  // namespace infer
