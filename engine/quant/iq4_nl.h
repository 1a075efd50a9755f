// IQ4_NL: 32 weights, one binary16 scale d; value = d·level, one of sixteen (iq4_levels.h). Byte j
// holds weight j in its low and weight j+16 in its high nibble.
#pragma once

#include <algorithm>

#include "engine/quant/fit.h"
#include "engine/quant/iq4_levels.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::iq4_nl> {
  struct Block {
    uint16_t d;
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const float d = f16_to_f32(blocks[b].d);
      for (int j = 0; j < 16; ++j) {
        out[j] = d * static_cast<float>(kIq4Levels[blocks[b].qs[j] & 15]);
        out[j + 16] = d * static_cast<float>(kIq4Levels[blocks[b].qs[j] >> 4]);
      }
    }
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      float x[32];
      limit_values(in, x, 32);
      blocks[b].d = f32_to_f16_finite(fit(x));
      const float inverse = inverse_or_zero(f16_to_f32(blocks[b].d));
      for (int j = 0; j < 16; ++j) {
        blocks[b].qs[j] = static_cast<uint8_t>(nearest_iq4_level(x[j] * inverse) |
                                               (nearest_iq4_level(x[j + 16] * inverse) << 4));
      }
    }
  }

 private:
  /// The scale of least squared error among those that put the largest value near an end level.
  static float fit(const float* x) {
    const float extreme = extreme_of(x, 32);
    if (std::fabs(extreme) < kVanishing) return 0;
    float best_scale = 0;
    float best_gain = 0;
    for (const float end : {-127.0f, -121.0f, -114.0f, -133.0f, 113.0f, 107.0f, 101.0f, 119.0f}) {
      const float inverse = end / extreme;
      float xq = 0;
      float qq = 0;
      for (int j = 0; j < 32; ++j) {
        const float level = kIq4Levels[nearest_iq4_level(x[j] * inverse)];
        xq += x[j] * level;
        qq += level * level;
      }
      if (xq * xq > best_gain * qq) {
        best_gain = xq * xq / qq;
        best_scale = xq / qq;
      }
    }
    return best_scale;
  }
};

}  // namespace infer
