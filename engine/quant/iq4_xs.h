// IQ4_XS: 256 weights in 8 sub-blocks of 32; value = (d·(s − 32))·level with the levels of IQ4_NL.
// The low four bits of s of sub-block j are nibble j of scales_l, the upper two bits 2j and 2j+1 of
// scales_h. Byte 16j + l of qs holds weight 32j + l in its low and 32j + 16 + l in its high nibble.
#pragma once

#include "engine/quant/iq4_levels.h"
#include "engine/quant/k_search.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq4_xs> {
  struct Block {
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int j = 0; j < 8; ++j, out += 32) {
        const int low = (block.scales_l[j / 2] >> (j % 2 * 4)) & 15;
        const int high = (block.scales_h >> (2 * j)) & 3;
        const float scale = d * static_cast<float>((low | (high << 4)) - 32);
        for (int l = 0; l < 16; ++l) {
          const uint8_t q = block.qs[16 * j + l];
          out[l] = scale * static_cast<float>(kIq4Levels[q & 15]);
          out[l + 16] = scale * static_cast<float>(kIq4Levels[q >> 4]);
        }
      }
    }
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    quantise(in, nullptr, blocks, count);
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 256) {
      Block& block = blocks[b];
      block = {};
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::square);
      if (importance != nullptr) importance += 256;
      int scales[8];
      float levels[256];
      if (!some || !search_scaled<Iq4Levels, 8>(search, -32, 31, 14, 5, block.d, scales, levels)) {
        continue;
      }
      for (int j = 0; j < 8; ++j) {
        const int stored = scales[j] + 32;
        block.scales_l[j / 2] |= static_cast<uint8_t>((stored & 15) << (j % 2 * 4));
        block.scales_h |= static_cast<uint16_t>((stored >> 4) << (2 * j));
        for (int l = 0; l < 16; ++l) {
          const int low = nearest_iq4_level(levels[32 * j + l]);
          const int high = nearest_iq4_level(levels[32 * j + 16 + l]);
          block.qs[16 * j + l] = static_cast<uint8_t>(low | (high << 4));
        }
      }
    }
  }
};

}  // namespace infer
