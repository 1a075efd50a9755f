// Q8_K: 256 activations for products with the K types; value = d·q with d in float32, and the sum
// of every 16 levels, for the offsets of those types. Decoding does not need the sums.
// d is kept as bytes, since the data of a file need not be aligned to four.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/quant/fit.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q8_k> {
  struct Block {
    uint8_t d[4];
    int8_t qs[256];
    int16_t sums[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 256) {
      float d;
      std::memcpy(&d, blocks[b].d, sizeof(d));
      for (int j = 0; j < 256; ++j) out[j] = d * static_cast<float>(blocks[b].qs[j]);
    }
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    constexpr float kSmallest = 1e-36f;  // the inverse of a smaller scale is beyond float
    for (int64_t b = 0; b < count; ++b, in += 256) {
      float d = std::fabs(extreme_of(in, 256)) / 127;
      if (d < kSmallest) d = 0;
      if (!std::isfinite(d * 127)) d = std::nextafter(d, 0.0f);  // rounding went beyond FLT_MAX
      std::memcpy(blocks[b].d, &d, sizeof(d));
      const float inverse = inverse_or_zero(d);
      for (int group = 0; group < 16; ++group) {
        int sum = 0;
        for (int j = group * 16; j < (group + 1) * 16; ++j) {
          blocks[b].qs[j] = static_cast<int8_t>(round_to_level(in[j] * inverse, -127, 127));
          sum += blocks[b].qs[j];
        }
        blocks[b].sums[group] = static_cast<int16_t>(sum);
      }
    }
  }
};

}  // namespace infer
