// IQ2_S: 256 weights in 16 sub-blocks of 16; value = ±(d·(½ + s)·¼)·level. Eight weights i have an
// index of kIq2SGrid, qs[i] and two more bits from bit 2(i % 4) of qh[i / 4], and a byte of signs;
// s of sub-block j is nibble j of scales.
#pragma once

#include "engine/quant/grid_search.h"
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

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    static const GridIndex<8, 3> index(kIq2SGrid, 2, kIq2Levels);
    for (int64_t b = 0; b < count; ++b, in += 256) {
      Block& block = blocks[b];
      block = {};
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::square);
      if (importance != nullptr) importance += 256;
      GridFit fit;
      const auto factor = [](int s) { return (0.5f + static_cast<float>(s)) * 0.25f; };
      if (!some || !search_grid<16>(index, search, false, factor, fit)) continue;
      block.d = fit.d;
      for (int i = 0; i < 32; ++i) {
        block.qs[i] = static_cast<uint8_t>(fit.entries[i]);
        block.qh[i / 4] |= static_cast<uint8_t>((fit.entries[i] >> 8) << (i % 4 * 2));
        block.signs[i] = fit.signs[i];
      }
      for (int j = 0; j < 8; ++j) {
        block.scales[j] = static_cast<uint8_t>(fit.scales[2 * j] | (fit.scales[2 * j + 1] << 4));
      }
    }
  }
};

}  // namespace infer
