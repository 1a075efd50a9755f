// NVFP4: 64 weights in four sub-blocks of 16 as 4-bit floats, each with an 8-bit float scale (E4M3
// with bias 7, taken as positive); value = level·scale. Byte 8s + j of qs holds weight 16s + j in
// its low and 16s + 8 + j in its high nibble. A further scale for the whole tensor is a tensor of
// its own (`X.scale`) and not applied here.
#pragma once

#include <bit>

#include "engine/quant/fp4_levels.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::nvfp4> {
  struct Block {
    uint8_t scales[4];
    uint8_t qs[32];
  };

  /// Half of the scale, as the levels are doubled. The pattern of NaN stands for zero.
  static float half_scale(uint8_t bits) {
    if ((bits & 127) == 127) return 0;
    const int exponent = (bits >> 3) & 15;
    const auto mantissa = static_cast<float>(bits & 7);
    if (exponent == 0) return mantissa * 0x1p-10f;
    return (1 + mantissa / 8) * std::bit_cast<float>(static_cast<uint32_t>(exponent + 119) << 23);
  }

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      for (int s = 0; s < 4; ++s, out += 16) {
        const float d = half_scale(blocks[b].scales[s]);
        for (int j = 0; j < 8; ++j) {
          const uint8_t q = blocks[b].qs[8 * s + j];
          out[j] = static_cast<float>(kFp4Levels[q & 15]) * d;
          out[j + 8] = static_cast<float>(kFp4Levels[q >> 4]) * d;
        }
      }
    }
  }
};

}  // namespace infer
