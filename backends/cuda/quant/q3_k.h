// Q3_K: engine/quant/q3_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kRun = 16;
  static constexpr float kUnit = 1.0f / 32;
  static constexpr uint32_t kPlanes = 4;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {1024, 512, 192, 32};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 16, 0, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 0, 24, 4};
    return all[plane];
  }
  struct Raw {
    uint4 codes[2];
    uint4 bits;
    uint2 scales[3];
    uint32_t d;
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {
        {plane_part<uint4>(at.plane[0], unit * 1024),
         plane_part<uint4>(at.plane[0], unit * 1024 + 512)},
        plane_part<uint4>(at.plane[1], unit * 512),
        {plane_part<uint2>(at.plane[2], unit * 192), plane_part<uint2>(at.plane[2], unit * 192 + 8),
         plane_part<uint2>(at.plane[2], unit * 192 + 16)},
        plane_part<uint32_t>(at.plane[3], unit * 32)};
  }
  /// Less 4, 32 times: the third bit is packed turned over, as a sign.
  INFER_DEVICE static void codes(const Raw& raw, uint32_t tile, uint32_t, uint32_t (&a)[8]) {
    const uint32_t bits = part_of(raw.bits, tile);
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t word = part_of(raw.codes[tile / 2], tile % 2 * 2 + i / 4);
      const uint32_t r = i % 4;
      const uint32_t two = r < 3 ? word << (5 - 2 * r) : word >> 1;
      a[i] = (two & 0x60606060u) | bit_of_bytes(bits, i, 7);
    }
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t tile, uint32_t h, float (&scale)[4],
                                      float (&)[4]) {
    const float d = half_of(h == 0 ? raw.d & 0xffffu : raw.d >> 16);
    const uint32_t lows[2] = {part_of(raw.scales[0], h), part_of(raw.scales[1], h)};
    const uint32_t low = (tile % 2 == 0 ? lows[0] : lows[1]) >> (tile / 2 * 4);
    const uint32_t high = part_of(raw.scales[2], h) >> (tile * 2);
    const uint32_t all = (low & 0x0f0f0f0fu) | ((high << 4) & 0x30303030u);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) scale[i] = d * (raised_byte(all, i) - (kRaised + 32.0f));
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
