// NF4: engine/quant/nf4.h.
// kernels: column product stream tile embed_tiles
#pragma once

#include "backends/cuda/weights/codebook.h"

namespace infer::cuda::INFER_TYPE {

struct Book {
  INFER_DEVICE static Levels high() {
    return {{0xcebda881u, 0x00f4e9dcu, 0x2b1f140au, 0x7f5c4738u}};
  }
  INFER_DEVICE static Levels low() {
    return {{0xd8519500u, 0x007089e0u, 0xea42701bu, 0x00d174f8u}};
  }
  INFER_DEVICE static float level(uint32_t code) {
    switch (code) {
      case 0: return -1.0f;
      case 1: return -0.6961928009986877f;
      case 2: return -0.5250730514526367f;
      case 3: return -0.39491748809814453f;
      case 4: return -0.28444138169288635f;
      case 5: return -0.18477343022823334f;
      case 6: return -0.09105003625154495f;
      case 7: return 0.0f;
      case 8: return 0.07958029955625534f;
      case 9: return 0.16093020141124725f;
      case 10: return 0.24611230194568634f;
      case 11: return 0.33791524171829224f;
      case 12: return 0.44070982933044434f;
      case 13: return 0.5626170039176941f;
      case 14: return 0.7229568362236023f;
      default: return 1.0f;
    }
  }
};

using Weights = FragmentWeights<CodebookType<Book>>;

}  // namespace infer::cuda::INFER_TYPE
