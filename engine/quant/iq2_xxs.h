// IQ2_XXS: 256 weights in 8 sub-blocks of 32; value = ±(d·(½ + s)·¼)·level. Each sub-block has four
// words of 16 bits: the first two hold four indices of kIq2XxsGrid, one a byte; the other two, as
// 32 bits, four times seven sign bits (iq_signs) and on top the 4-bit s.
#pragma once

#include "engine/quant/grid_search.h"
#include "engine/quant/iq_decode.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq2_xxs> {
  struct Block {
    uint16_t d;
    uint16_t qs[32];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const float d = f16_to_f32(blocks[b].d);
      for (int j = 0; j < 8; ++j) {
        const uint16_t* qs = blocks[b].qs + 4 * j;
        const uint32_t signs = qs[2] | (static_cast<uint32_t>(qs[3]) << 16);
        const float scale = d * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
        for (int l = 0; l < 4; ++l, out += 8) {
          const int index = (qs[l / 2] >> (l % 2 * 8)) & 255;
          put_iq2(kIq2XxsGrid[index], iq_signs(signs >> (7 * l)), scale, out);
        }
      }
    }
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    static const GridIndex<8, 3> index(kIq2XxsGrid, 2, kIq2Levels);
    for (int64_t b = 0; b < count; ++b, in += 256) {
      Block& block = blocks[b];
      block = {};
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::square);
      if (importance != nullptr) importance += 256;
      GridFit fit;
      const auto factor = [](int s) { return (0.5f + static_cast<float>(s)) * 0.25f; };
      if (!some || !search_grid<8>(index, search, true, factor, fit)) continue;
      block.d = fit.d;
      for (int j = 0; j < 8; ++j) {
        uint32_t word = static_cast<uint32_t>(fit.scales[j]) << 28;
        for (int l = 0; l < 4; ++l) {
          block.qs[4 * j + l / 2] |= static_cast<uint16_t>(fit.entries[4 * j + l] << (l % 2 * 8));
          word |= (fit.signs[4 * j + l] & 127u) << (7 * l);
        }
        block.qs[4 * j + 2] = static_cast<uint16_t>(word);
        block.qs[4 * j + 3] = static_cast<uint16_t>(word >> 16);
      }
    }
  }
};

}  // namespace infer
