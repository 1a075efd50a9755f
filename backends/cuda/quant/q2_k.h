// Q2_K: engine/quant/q2_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kRun = 16;
  static constexpr bool kUnsigned = true;
  static constexpr bool kLeast = true;
  static constexpr uint32_t kPlanes = 3;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {1024, 256, 64};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 0, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 32, 8};
    return all[plane];
  }
  struct Raw {
    uint4 codes[2];
    uint4 scales[2];
    uint2 d;
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {{plane_part<uint4>(at.plane[0], unit * 1024),
             plane_part<uint4>(at.plane[0], unit * 1024 + 512)},
            {plane_part<uint4>(at.plane[1], unit * 256),
             plane_part<uint4>(at.plane[1], unit * 256 + 16)},
            plane_part<uint2>(at.plane[2], unit * 64)};
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t tile, uint32_t, uint32_t (&a)[8]) {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      a[i] = (part_of(raw.codes[tile / 2], tile % 2 * 2 + i / 4) >> (i % 4 * 2)) & 0x03030303u;
    }
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t tile, uint32_t h, float (&scale)[4],
                                      float (&least)[4]) {
    const float d = low_half(part_of(raw.d, h));
    const float dmin = high_half(part_of(raw.d, h));
    const uint32_t word = part_of(of_row(raw.scales, h), tile);
    const uint32_t low = word & 0x0f0f0f0fu;
    const uint32_t high = (word >> 4) & 0x0f0f0f0fu;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      scale[i] = fused(raised_byte(low, i), d, -kRaised * d);
      least[i] = fused(raised_byte(high, i), dmin, -kRaised * dmin);
    }
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
