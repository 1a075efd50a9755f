// What the decoders of the IQ types share: writing out an entry of a codebook.
#pragma once

#include "engine/quant/iq_grids.h"
#include "engine/quant/quant.h"

namespace infer {

/// Eight weights of a kIq2… grid: ±scale·level; bit i of `signs` is set where weight i is negative.
inline void put_iq2(uint16_t entry, uint8_t signs, float scale, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float value = scale * kIq2Levels[(entry >> (2 * i)) & 3];
    out[i] = ((signs >> i) & 1) != 0 ? -value : value;
  }
}

/// Four weights of a kIq3… grid, in the same way.
inline void put_iq3(uint16_t entry, const float* levels, int signs, float scale, float* out) {
  for (int i = 0; i < 4; ++i) {
    const float value = scale * levels[(entry >> (4 * i)) & 7];
    out[i] = ((signs >> i) & 1) != 0 ? -value : value;
  }
}

/// Eight weights of kIq1Grid: scale·(level + delta).
inline void put_iq1(uint16_t entry, float delta, float scale, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = scale * (kIq1Levels[(entry >> (2 * i)) & 3] + delta);
}

}  // namespace infer
