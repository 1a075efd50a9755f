// Q4_0: 32 weights, one binary16 scale d; value = d·(q − 8), q in 0..15.
// Byte j holds weight j in its low and weight j+16 in its high nibble.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q4_0> {
  struct Block {
    uint16_t d;
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const float d = f16_to_f32(blocks[b].d);
      for (int j = 0; j < 16; ++j) {
        out[j] = static_cast<float>((blocks[b].qs[j] & 0xf) - 8) * d;
        out[j + 16] = static_cast<float>((blocks[b].qs[j] >> 4) - 8) * d;
      }
    }
  }

  /// The value of largest magnitude maps to −8, which uses the sixteenth level.
  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      float extreme = 0;
      for (int j = 0; j < 32; ++j) {
        if (std::fabs(in[j]) > std::fabs(extreme)) extreme = in[j];
      }
      const float d = extreme / -8;
      const float inverse = d != 0 ? 1 / d : 0;
      blocks[b].d = f32_to_f16(d);
      for (int j = 0; j < 16; ++j) {
        const auto level = [&](float x) {
          return static_cast<uint8_t>(std::clamp(static_cast<int>(x * inverse + 8.5f), 0, 15));
        };
        blocks[b].qs[j] = static_cast<uint8_t>(level(in[j]) | (level(in[j + 16]) << 4));
      }
    }
  }
};

}  // namespace infer
