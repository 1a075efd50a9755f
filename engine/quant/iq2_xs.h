// IQ2_XS: 256 weights in 16 sub-blocks of 16; value = ±(d·(½ + s)·¼)·level. A word of qs holds an
// index of kIq2XsGrid (nine bits) and seven sign bits (iq_signs) for eight weights; s of sub-block
// j is nibble j of scales.
#pragma once

#include "engine/quant/grid_search.h"
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

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    static const GridIndex<8, 3> index(kIq2XsGrid, 2, kIq2Levels);
    for (int64_t b = 0; b < count; ++b, in += 256) {
      Block& block = blocks[b];
      block = {};
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::square);
      if (importance != nullptr) importance += 256;
      GridFit fit;
      const auto factor = [](int s) { return (0.5f + static_cast<float>(s)) * 0.25f; };
      if (!some || !search_grid<16>(index, search, true, factor, fit)) continue;
      block.d = fit.d;
      for (int i = 0; i < 32; ++i) {
        block.qs[i] = static_cast<uint16_t>(fit.entries[i] | ((fit.signs[i] & 127) << 9));
      }
      for (int j = 0; j < 8; ++j) {
        block.scales[j] = static_cast<uint8_t>(fit.scales[2 * j] | (fit.scales[2 * j + 1] << 4));
      }
    }
  }
};

}  // namespace infer
