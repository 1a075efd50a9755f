// TQ1_0: 256 ternary weights, one binary16 scale d; value = d·(t − 1), t in 0..2. Five base-3
// digits share a byte, stored as ⌈256·n / 243⌉, so that multiplying by 3 shifts the next digit into
// the ninth bit and above. Digit k of bytes 0..31 of qs holds weights 32k.., of bytes 32..47
// weights 160 + 16k.., and of qh (four digits) weights 240 + 4k...
#pragma once

#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::tq1_0> {
  struct Block {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const float d = f16_to_f32(blocks[b].d);
      out = digits(blocks[b].qs, 32, 5, d, out);
      out = digits(blocks[b].qs + 32, 16, 5, d, out);
      out = digits(blocks[b].qh, 4, 4, d, out);
    }
  }

 private:
  static float* digits(const uint8_t* bytes, int n, int digits, float d, float* out) {
    int power = 1;
    for (int k = 0; k < digits; ++k, power *= 3) {
      for (int i = 0; i < n; ++i) {
        const int rest = (bytes[i] * power) & 255;
        *out++ = static_cast<float>(((rest * 3) >> 8) - 1) * d;
      }
    }
    return out;
  }
};

}  // namespace infer
