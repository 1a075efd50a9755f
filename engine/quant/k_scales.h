// The 6-bit scales and offsets of the eight sub-blocks of Q4_K and Q5_K, packed into 12 bytes:
// bytes 0..3 hold the scales 0..3 and bytes 4..7 the offsets 0..3 in their low six bits;
// bytes 8..11 hold the low four bits of scale 4..7 (low nibble) and offset 4..7 (high nibble),
// whose upper two bits are the upper two of bytes 0..3 and 4..7.
#pragma once

#include <algorithm>

#include "engine/quant/fit.h"
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

/// Fits 256 values as N sub-blocks of x ≈ d·scale·q − dmin·min with q in 0..levels and scales and
/// minima in 0..scale_levels, and gives the levels q, one a byte.
template <int N>
void fit_k_block(const float* in, int levels, int scale_levels, uint16_t& d_bits,
                 uint16_t& dmin_bits, KScale* scales, uint8_t* q) {
  constexpr int kSize = 256 / N;
  float x[256];
  limit_values(in, x, 256);
  ScaleMin fits[N];
  float max_scale = 0;
  float max_min = 0;
  for (int j = 0; j < N; ++j) {
    fits[j] = fit_scale_min<kSize>(x + j * kSize, levels);
    max_scale = std::max(max_scale, fits[j].scale);
    max_min = std::max(max_min, fits[j].min);
  }
  d_bits = f32_to_f16_finite(max_scale / static_cast<float>(scale_levels));
  dmin_bits = f32_to_f16_finite(max_min / static_cast<float>(scale_levels));
  const float d = f16_to_f32(d_bits);
  const float dmin = f16_to_f32(dmin_bits);
  for (int j = 0; j < N; ++j) {
    scales[j].scale =
        static_cast<uint8_t>(round_to_level(fits[j].scale * inverse_or_zero(d), 0, scale_levels));
    scales[j].min =
        static_cast<uint8_t>(round_to_level(fits[j].min * inverse_or_zero(dmin), 0, scale_levels));
    const float inverse = inverse_or_zero(d * static_cast<float>(scales[j].scale));
    const float min = dmin * static_cast<float>(scales[j].min);
    for (int i = j * kSize; i < (j + 1) * kSize; ++i) {
      q[i] = static_cast<uint8_t>(round_to_level((x[i] + min) * inverse, 0, levels));
    }
  }
}

}  // namespace infer
