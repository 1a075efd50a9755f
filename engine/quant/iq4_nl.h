// IQ4_NL: 32 weights, one binary16 scale d; value = d·level, one of sixteen (iq4_levels.h). Byte j
// holds weight j in its low and weight j+16 in its high nibble.
#pragma once

#include "engine/quant/iq4_levels.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq4_nl> {
  struct Block {
    uint16_t d;
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const float d = f16_to_f32(blocks[b].d);
      for (int j = 0; j < 16; ++j) {
        out[j] = d * static_cast<float>(kIq4Levels[blocks[b].qs[j] & 15]);
        out[j + 16] = d * static_cast<float>(kIq4Levels[blocks[b].qs[j] >> 4]);
      }
    }
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    quantise(in, nullptr, blocks, count);
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      SearchBlock<32> search;
      const bool some = search.set(in, importance, Emphasis::square);
      const float scale =
          some ? search_scale<Iq4Levels, 32>(search.x, search.w, 14, 5) * search.size : 0;
      blocks[b].d = f32_to_f16_finite(scale);
      const float inverse = inverse_or_zero(f16_to_f32(blocks[b].d));
      for (int j = 0; j < 16; ++j) {
        blocks[b].qs[j] = static_cast<uint8_t>(nearest_iq4_level(in[j] * inverse) |
                                               (nearest_iq4_level(in[j + 16] * inverse) << 4));
      }
      if (importance != nullptr) importance += 32;
    }
  }
};

}  // namespace infer
