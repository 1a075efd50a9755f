// Q6_K: 256 weights in 16 sub-blocks of 16; value = (d·s)·(q − 32), q in 0..63, s in −128..127. Of
// weight 128h + 32k + l, the low four bits lie in ql[64h + 32(k % 2) + l] (low nibble for k < 2,
// else high), the upper two in bits 2k and 2k+1 of qh[32h + l].
#pragma once

#include <cstring>

#include "engine/quant/k_search.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q6_k> {
  struct Block {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 256) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      for (int j = 0; j < 16; ++j) {
        const float scale = d * static_cast<float>(block.scales[j]);
        const Place place(j);
        for (int l = 0; l < 16; ++l) {
          const int low = (block.ql[place.low + l] >> place.low_shift) & 15;
          const int high = (block.qh[place.high + l] >> place.high_shift) & 3;
          out[16 * j + l] = scale * static_cast<float>((low | (high << 4)) - 32);
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
      if (!some || !search_scaled<UniformLevels<-32, 31>, 16>(search, -128, 127, 1.0f, 4, block.d,
                                                              scales, levels)) {
        continue;
      }
      for (int j = 0; j < 16; ++j) {
        block.scales[j] = static_cast<int8_t>(scales[j]);
        const Place place(j);
        for (int l = 0; l < 16; ++l) {
          const int q = static_cast<int>(levels[16 * j + l]) + 32;
          block.ql[place.low + l] |= static_cast<uint8_t>((q & 15) << place.low_shift);
          block.qh[place.high + l] |= static_cast<uint8_t>((q >> 4) << place.high_shift);
        }
      }
    }
  }

 private:
  /// Where the bits of sub-block j lie.
  struct Place {
    explicit Place(int j)
        : low(j / 8 * 64 + j % 4 * 16),
          low_shift(j % 8 / 4 * 4),
          high(j / 8 * 32 + j % 2 * 16),
          high_shift(j % 8 / 2 * 2) {}
    int low, low_shift, high, high_shift;
  };
};

}  // namespace infer
