// Q4_1: 32 weights, binary16 scale d and offset m; value = d·q + m, q in 0..15.
// Byte j holds weight j in its low and weight j+16 in its high nibble.
#pragma once

#include <algorithm>

#include "engine/quant/quant.h"
#include "engine/quant/search.h"

namespace infer {

template <>
struct Codec<DType::q4_1> {
  struct Block {
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      const float m = f16_to_f32(block.m);
      for (int j = 0; j < 16; ++j) {
        const int low = block.qs[j] & 15;
        const int high = block.qs[j] >> 4;
        out[j] = static_cast<float>(low) * d + m;
        out[j + 16] = static_cast<float>(high) * d + m;
      }
    }
  }

  /// The smallest value maps to 0 and the largest to 15.
  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      const auto [least, most] = std::minmax_element(in, in + 32);
      // Halved before they are subtracted, for the difference may be beyond float.
      blocks[b].d = f32_to_f16_finite((*most / 2 - *least / 2) * (2.0f / 15));
      blocks[b].m = f32_to_f16_finite(*least);
      pack(in, blocks[b]);
    }
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      SearchBlock<32> search;
      const bool some = search.set(in, importance, Emphasis::root);
      ScaleMin fit;
      if (some) fit = search_scale_min<15, 32>(search.x, search.w, true);
      blocks[b].d = f32_to_f16_finite(fit.scale * search.size);
      blocks[b].m = f32_to_f16_finite(-fit.min * search.size);
      pack(in, blocks[b]);
      if (importance != nullptr) importance += 32;
    }
  }

 private:
  /// The nearest levels.
  static void pack(const float* in, Block& block) {
    const float inverse = inverse_or_zero(f16_to_f32(block.d));
    const float m = f16_to_f32(block.m);
    const auto level = [&](float x) { return round_to_level((x - m) * inverse, 0, 15); };
    for (int j = 0; j < 16; ++j) {
      block.qs[j] = static_cast<uint8_t>(level(in[j]) | (level(in[j + 16]) << 4));
    }
  }
};

}  // namespace infer
