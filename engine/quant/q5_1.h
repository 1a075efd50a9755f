// Q5_1: 32 weights, binary16 scale d and offset m; value = d·q + m, q in 0..31. Byte j of qs holds
// the low four bits of weight j (low nibble) and weight j+16 (high nibble); bit j of qh the fifth.
#pragma once

#include <algorithm>

#include "engine/quant/quant.h"
#include "engine/quant/search.h"

namespace infer {

template <>
struct Codec<DType::q5_1> {
  struct Block {
    uint16_t d;
    uint16_t m;
    uint8_t qh[4];
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      const float m = f16_to_f32(block.m);
      for (int j = 0; j < 16; ++j) {
        const int low = (block.qs[j] & 15) | (bit(block, j) << 4);
        const int high = (block.qs[j] >> 4) | (bit(block, j + 16) << 4);
        out[j] = static_cast<float>(low) * d + m;
        out[j + 16] = static_cast<float>(high) * d + m;
      }
    }
  }

  /// The smallest value maps to 0 and the largest to 31.
  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      const auto [least, most] = std::minmax_element(in, in + 32);
      // Halved before they are subtracted, for the difference may be beyond float.
      blocks[b].d = f32_to_f16_finite((*most / 2 - *least / 2) * (2.0f / 31));
      blocks[b].m = f32_to_f16_finite(*least);
      pack(in, blocks[b]);
    }
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      SearchBlock<32> search;
      const bool some = search.set(in, importance, Emphasis::root);
      ScaleMin fit;
      if (some) fit = search_scale_min<31, 32>(search.x, search.w, true);
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
    const auto level = [&](float x) { return round_to_level((x - m) * inverse, 0, 31); };
    uint32_t high_bits = 0;
    for (int j = 0; j < 16; ++j) {
      const int low = level(in[j]);
      const int high = level(in[j + 16]);
      block.qs[j] = static_cast<uint8_t>((low & 15) | ((high & 15) << 4));
      high_bits |= static_cast<uint32_t>(low >> 4) << j;
      high_bits |= static_cast<uint32_t>(high >> 4) << (j + 16);
    }
    for (int i = 0; i < 4; ++i) block.qh[i] = static_cast<uint8_t>(high_bits >> (8 * i));
  }

  static int bit(const Block& block, int j) { return (block.qh[j / 8] >> (j % 8)) & 1; }
};

}  // namespace infer
