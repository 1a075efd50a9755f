// Q8_0: 32 weights, one binary16 scale d; value = d·q, q in −128..127 (encoders use −127..127).
#pragma once

#include "engine/quant/fit.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q8_0> {
  struct Block {
    uint16_t d;
    int8_t qs[32];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const float d = f16_to_f32(blocks[b].d);
      for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(blocks[b].qs[j]) * d;
    }
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 32) {
      blocks[b].d = f32_to_f16_finite(std::fabs(extreme_of(in, 32)) / 127);
      const float inverse = inverse_or_zero(f16_to_f32(blocks[b].d));
      for (int j = 0; j < 32; ++j) {
        blocks[b].qs[j] = static_cast<int8_t>(round_to_level(in[j] * inverse, -127, 127));
      }
    }
  }
};

}  // namespace infer
