// IQ3_XXS: 256 weights in 8 sub-blocks of 32; value = ±(d·(½ + s)·½)·level. Four weights have an
// index of kIq3XxsGrid in a byte of qs; a sub-block has four times seven sign bits (iq_signs), each
// for eight weights, and on top the 4-bit s in two words of signs.
#pragma once

#include "engine/quant/grid_search.h"
#include "engine/quant/iq_decode.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq3_xxs> {
  struct Block {
    uint16_t d;
    uint8_t qs[64];
    uint16_t signs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int j = 0; j < 8; ++j) {
        const uint32_t word =
            block.signs[2 * j] | (static_cast<uint32_t>(block.signs[2 * j + 1]) << 16);
        const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
        for (int l = 0; l < 8; ++l, out += 4) {
          const int signs = iq_signs(word >> (l / 2 * 7)) >> (l % 2 * 4);
          put_iq3(kIq3XxsGrid[block.qs[8 * j + l]], kIq3XxsLevels, signs, scale, out);
        }
      }
    }
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    static const GridIndex<4, 8> index(kIq3XxsGrid, 4, kIq3XxsLevels);
    for (int64_t b = 0; b < count; ++b, in += 256) {
      Block& block = blocks[b];
      block = {};
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::square);
      if (importance != nullptr) importance += 256;
      GridFit fit;
      const auto factor = [](int s) { return (0.5f + static_cast<float>(s)) * 0.5f; };
      if (!some || !search_grid<8>(index, search, true, factor, fit)) continue;
      block.d = fit.d;
      for (int i = 0; i < 64; ++i) block.qs[i] = static_cast<uint8_t>(fit.entries[i]);
      for (int j = 0; j < 8; ++j) {
        uint32_t word = static_cast<uint32_t>(fit.scales[j]) << 28;
        for (int l = 0; l < 4; ++l) word |= (fit.signs[4 * j + l] & 127u) << (7 * l);
        block.signs[2 * j] = static_cast<uint16_t>(word);
        block.signs[2 * j + 1] = static_cast<uint16_t>(word >> 16);
      }
    }
  }
};

}  // namespace infer
