// MXFP4: 32 weights as 4-bit floats with one power of two for a scale (E8M0: 2^(e − 127)); value =
// level·scale. Byte j holds weight j in its low and weight j+16 in its high nibble.
// OCP Microscaling Formats 1.0, sections 5.3 and 5.4; its NaN scale (e = 255) decodes as 2^128.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/quant/fit.h"
#include "engine/quant/fp4_levels.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::mxfp4> {
  struct Block {
    uint8_t e;
    uint8_t qs[16];
  };

  /// 2^(e − 128), half of the scale, as the levels are doubled. The two smallest are subnormal.
  static float half_scale(uint8_t e) {
    const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
    return std::bit_cast<float>(bits);
  }

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const float d = half_scale(blocks[b].e);
      for (int j = 0; j < 16; ++j) {
        out[j] = static_cast<float>(kFp4Levels[blocks[b].qs[j] & 15]) * d;
        out[j + 16] = static_cast<float>(kFp4Levels[blocks[b].qs[j] >> 4]) * d;
      }
    }
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    quantise(in, nullptr, blocks, count);
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      blocks[b] = {};
      const float extreme = std::fabs(extreme_of(in, 32));
      float weights[32];
      set_weights(importance, weights);
      if (importance != nullptr) importance += 32;
      if (extreme < 0x1p-120f) continue;
      // Of the three powers of two that may be best, the one of least error: the largest value
      // falls in 4..8 with the middle one. Beyond the last exponent, values next to the largest
      // float would decode as infinity.
      constexpr int kLastExponent = 252;
      const int middle = std::ilogb(extreme) - 2 + 127;
      float least = HUGE_VALF;
      for (int e = std::max(middle - 1, 0); e <= std::min(middle + 1, kLastExponent); ++e) {
        // In units of the middle scale, so that the errors compare and stay within float.
        const float error = std::ldexp(squared_error(in, weights, e), 2 * (e - middle));
        if (error < least) {
          least = error;
          blocks[b].e = static_cast<uint8_t>(e);
        }
      }
      const float inverse = inverse_of(blocks[b].e);
      for (int j = 0; j < 16; ++j) {
        blocks[b].qs[j] = static_cast<uint8_t>(nearest_level(in[j] * inverse) |
                                               (nearest_level(in[j + 16] * inverse) << 4));
      }
    }
  }

 private:
  static float inverse_of(int e) { return std::ldexp(1.0f, 128 - e); }

  static int nearest_level(float x) {
    constexpr float kMiddles[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    int index = 0;
    for (const float middle : kMiddles) index += std::fabs(x) > middle ? 1 : 0;
    return x < 0 && index > 0 ? index + 8 : index;
  }

  /// The importance of each column in units of the largest, or ones.
  static void set_weights(const float* importance, float* weights) {
    const float most = importance == nullptr ? 0 : *std::max_element(importance, importance + 32);
    for (int j = 0; j < 32; ++j) weights[j] = most > 0 ? importance[j] / most : 1.0f;
  }

  /// Of the block with the scale of exponent `e`, in units of half that scale squared.
  static float squared_error(const float* in, const float* weights, int e) {
    const float inverse = inverse_of(e);
    float sum = 0;
    for (int j = 0; j < 32; ++j) {
      const float x = in[j] * inverse;
      const float delta = x - static_cast<float>(kFp4Levels[nearest_level(x)]);
      sum += delta * delta * weights[j];
    }
    return sum;
  }
};

}  // namespace infer
