// IQ4_XS: engine/quant/iq4_xs.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kPlanes = 2;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {2048, 128};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 16};
    return all[plane];
  }
  struct Raw {
    uint4 codes[4];
    uint4 heads;  ///< two words of each row: d and the upper bits of the scales, the lower bits
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    Raw raw;
#pragma unroll
    for (uint32_t c = 0; c < 4; ++c) {
      raw.codes[c] = plane_part<uint4>(at.plane[0], unit * 2048 + c * 512);
    }
    raw.heads = plane_part<uint4>(at.plane[1], unit * 128);
    return raw;
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t tile, uint32_t, uint32_t (&a)[8]) {
    table_runs(raw.codes[tile], iq4_levels(), a);
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t tile, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
    const uint32_t first = h == 0 ? raw.heads.x : raw.heads.z;
    const uint32_t lows = h == 0 ? raw.heads.y : raw.heads.w;
    const float d = low_half(first);
#pragma unroll
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t j = tile * 2 + m;
      const uint32_t six = ((lows >> (4 * j)) & 15) | (((first >> (16 + 2 * j)) & 3) << 4);
      scale[m] = d * (float_of(0x4b000000u | six) - (kRaised + 32.0f));
    }
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
