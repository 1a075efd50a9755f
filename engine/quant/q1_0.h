// Q1_0: 128 binary weights, one binary16 scale d; value = d where the bit is set, else −d. Weight i
// is bit i % 8 of byte i / 8.
#pragma once

#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q1_0> {
  struct Block {
    uint16_t d;
    uint8_t qs[16];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 128) {
      const float d = f16_to_f32(blocks[b].d);
      for (int i = 0; i < 128; ++i) {
        out[i] = ((blocks[b].qs[i / 8] >> (i % 8)) & 1) != 0 ? d : -d;
      }
    }
  }
};

}  // namespace infer
