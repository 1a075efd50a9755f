// F16: IEEE binary16. Values beyond its range become infinite, as they do in GGUF converters.
#pragma once

#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::f16> {
  using Block = uint16_t;

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) out[b] = f16_to_f32(blocks[b]);
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b) blocks[b] = f32_to_f16(in[b]);
  }
};

}  // namespace infer
