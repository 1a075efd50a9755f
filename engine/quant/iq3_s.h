// IQ3_S: 256 weights in 8 sub-blocks of 32; value = ±(d·(1 + 2s))·level. Four weights i have an
// index of kIq3SGrid: qs[i] and a ninth bit, bit i % 8 of qh[i / 8]; weight n has sign bit n % 8 of
// signs[n / 8]; s of sub-block j is nibble j of scales.
#pragma once

#include "engine/quant/grid_search.h"
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

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    static const GridIndex<4, 8> index(kIq3SGrid, 4, kIq3SLevels);
    for (int64_t b = 0; b < count; ++b, in += 256) {
      Block& block = blocks[b];
      block = {};
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::square);
      if (importance != nullptr) importance += 256;
      GridFit fit;
      const auto factor = [](int s) { return static_cast<float>(1 + 2 * s); };
      if (!some || !search_grid<8>(index, search, false, factor, fit)) continue;
      block.d = fit.d;
      for (int i = 0; i < 64; ++i) {
        block.qs[i] = static_cast<uint8_t>(fit.entries[i]);
        block.qh[i / 8] |= static_cast<uint8_t>((fit.entries[i] >> 8) << (i % 8));
      }
      std::memcpy(block.signs, fit.signs, sizeof(block.signs));
      for (int j = 0; j < 4; ++j) {
        block.scales[j] = static_cast<uint8_t>(fit.scales[2 * j] | (fit.scales[2 * j + 1] << 4));
      }
    }
  }
};

}  // namespace infer
