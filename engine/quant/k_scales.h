// The 6-bit scales and offsets of the eight sub-blocks of Q4_K and Q5_K, packed into 12 bytes:
// bytes 0..3 hold the scales 0..3 and bytes 4..7 the offsets 0..3 in their low six bits;
// bytes 8..11 hold the low four bits of scale 4..7 (low nibble) and offset 4..7 (high nibble),
// whose upper two bits are the upper two of bytes 0..3 and 4..7.
#pragma once

#include "engine/quant/quant.h"

namespace infer {

struct KScale {
  uint8_t scale;
  uint8_t min;
};

inline KScale unpack_k_scale(const uint8_t* packed, int j) {
  if (j < 4) {
    return {static_cast<uint8_t>(packed[j] & 63), static_cast<uint8_t>(packed[j + 4] & 63)};
  }
  return {static_cast<uint8_t>((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4)),
          static_cast<uint8_t>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4))};
}

inline void pack_k_scales(const KScale* scales, uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    const KScale& low = scales[j];
    const KScale& high = scales[j + 4];
    packed[j] = static_cast<uint8_t>(low.scale | ((high.scale >> 4) << 6));
    packed[j + 4] = static_cast<uint8_t>(low.min | ((high.min >> 4) << 6));
    packed[j + 8] = static_cast<uint8_t>((high.scale & 15) | ((high.min & 15) << 4));
  }
}

}  // namespace infer
