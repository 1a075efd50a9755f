// Q2_K: 256 weights in 16 sub-blocks of 16; value = (d·s)·q − dmin·m, q in 0..3. Byte j of scales
// holds s (low nibble) and m (high nibble) of sub-block j. Weight 128h + 32k + l lies in bits 2k
// and 2k+1 of qs[32h + l].
#pragma once

#include "engine/quant/k_search.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q2_k> {
  struct Block {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d;
    uint16_t dmin;
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 256) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      const float dmin = f16_to_f32(block.dmin);
      for (int j = 0; j < 16; ++j) {
        const float scale = d * static_cast<float>(block.scales[j] & 15);
        const float min = dmin * static_cast<float>(block.scales[j] >> 4);
        const uint8_t* qs = block.qs + j / 8 * 32 + j % 2 * 16;
        const int shift = j % 8 / 2 * 2;
        for (int l = 0; l < 16; ++l) {
          out[16 * j + l] = scale * static_cast<float>((qs[l] >> shift) & 3) - min;
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
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::root);
      if (importance != nullptr) importance += 256;
      if (!some) {
        block = {};
        continue;
      }
      KScale scales[16];
      uint8_t q[256];
      search_affine<3, 16>(search, 15, block.d, block.dmin, scales, q);
      for (int j = 0; j < 16; ++j) {
        block.scales[j] = static_cast<uint8_t>(scales[j].scale | (scales[j].min << 4));
      }
      for (int i = 0; i < 64; ++i) {
        const uint8_t* weight = q + i / 32 * 128 + i % 32;
        block.qs[i] = static_cast<uint8_t>(weight[0] | (weight[32] << 2) | (weight[64] << 4) |
                                           (weight[96] << 6));
      }
    }
  }
};

}  // namespace infer
