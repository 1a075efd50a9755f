// Q4_0: 32 weights, one binary16 scale d; value = d·(q − 8), q in 0..15.
// Byte j holds weight j in its low and weight j+16 in its high nibble.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/search.h"

namespace infer {

template <>
struct Codec<DType::q4_0> {
  struct Block {
    uint16_t d;
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int j = 0; j < 16; ++j) {
        const int low = block.qs[j] & 15;
        const int high = block.qs[j] >> 4;
        out[j] = static_cast<float>(low - 8) * d;
        out[j + 16] = static_cast<float>(high - 8) * d;
      }
    }
  }

  /// The value of largest magnitude maps to −8, which uses the level that has no counterpart.
  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      blocks[b].d = f32_to_f16_finite(extreme_of(in, 32) / -8);
      pack(in, blocks[b]);
    }
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      SearchBlock<32> search;
      const bool some = search.set(in, importance, Emphasis::root);
      const float scale =
          some ? search_scale<UniformLevels<-8, 7>, 32>(search.x, search.w, 1.2f, 6) * search.size
               : 0;
      blocks[b].d = f32_to_f16_finite(scale);
      pack(in, blocks[b]);
      if (importance != nullptr) importance += 32;
    }
  }

 private:
  /// The nearest levels.
  static void pack(const float* in, Block& block) {
    const float inverse = inverse_or_zero(f16_to_f32(block.d));
    const auto level = [&](float x) { return round_to_level(x * inverse, -8, 7) + 8; };
    for (int j = 0; j < 16; ++j) {
      block.qs[j] = static_cast<uint8_t>(level(in[j]) | (level(in[j + 16]) << 4));
    }
  }
};

}  // namespace infer
