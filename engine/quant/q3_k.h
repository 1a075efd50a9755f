// Q3_K: 256 weights in 16 sub-blocks of 16; value = (d·(s − 32))·(q − 4), q in 0..7. The low two
// bits of weight 128h + 32k + l lie in bits 2k and 2k+1 of qs[32h + l], the third in bit 4h + k of
// hmask[l]. Of the 6-bit s, scales[j % 8] holds the low four bits of s of sub-block j (low nibble
// for j < 8, else high) and bits 2(j / 4), 2(j / 4) + 1 of scales[8 + j % 4] the upper two.
#pragma once

#include <cstring>

#include "engine/quant/k_search.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q3_k> {
  struct Block {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 256) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int j = 0; j < 16; ++j) {
        const int low = (block.scales[j % 8] >> (j / 8 * 4)) & 15;
        const int high = (block.scales[8 + j % 4] >> (j / 4 * 2)) & 3;
        const float scale = d * static_cast<float>((low | (high << 4)) - 32);
        const uint8_t* qs = block.qs + j / 8 * 32 + j % 2 * 16;
        const uint8_t* hmask = block.hmask + j % 2 * 16;
        const int shift = j % 8 / 2 * 2;
        for (int l = 0; l < 16; ++l) {
          const int q = ((qs[l] >> shift) & 3) | (((hmask[l] >> (j / 2)) & 1) << 2);
          out[16 * j + l] = scale * static_cast<float>(q - 4);
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
      std::memset(&block, 0, sizeof(block));
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::square);
      if (importance != nullptr) importance += 256;
      int scales[16];
      float levels[256];
      if (!some || !search_scaled<UniformLevels<-4, 3>, 16>(search, -32, 31, 1.0f, 5, block.d,
                                                            scales, levels)) {
        continue;
      }
      for (int j = 0; j < 16; ++j) {
        const int stored = scales[j] + 32;
        block.scales[j % 8] |= static_cast<uint8_t>((stored & 15) << (j / 8 * 4));
        block.scales[8 + j % 4] |= static_cast<uint8_t>((stored >> 4) << (j / 4 * 2));
        for (int l = 0; l < 16; ++l) {
          const int q = static_cast<int>(levels[16 * j + l]) + 4;
          const int i = j % 2 * 16 + l;
          block.qs[j / 8 * 32 + i] |= static_cast<uint8_t>((q & 3) << (j % 8 / 2 * 2));
          block.hmask[i] |= static_cast<uint8_t>((q >> 2) << (j / 2));
        }
      }
    }
  }
};

}  // namespace infer
