// FP4: engine/quant/fp4.h.
// kernels: column product stream tile embed_tiles
#pragma once

#include "backends/cuda/weights/codebook.h"

namespace infer::cuda::INFER_TYPE {

struct Book {
  INFER_DEVICE static Levels high() {
    return {{0x7f550100u, 0x2015402au, 0x81abff00u, 0xe0ebc1d6u}};
  }
  INFER_DEVICE static Levels low() {
    return {{0x00aba900u, 0xc02b8055u, 0x00555700u, 0x40d580abu}};
  }
  INFER_DEVICE static float level(uint32_t code) {
    const float a =
        code % 4 < 2 ? (code % 2 == 0 ? 0.0f : 0.0625f / 12) : (code % 2 == 0 ? 8.0f / 12 : 1.0f);
    const float b = code % 4 < 2 ? (code % 2 == 0 ? 4.0f / 12 : 6.0f / 12)
                                 : (code % 2 == 0 ? 2.0f / 12 : 3.0f / 12);
    const float size = (code & 4) == 0 ? a : b;
    return (code & 8) == 0 ? size : -size;
  }
};

using Weights = FragmentWeights<CodebookType<Book>>;

}  // namespace infer::cuda::INFER_TYPE
