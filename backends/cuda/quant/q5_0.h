// Q5_0: engine/quant/q5_0.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr float kUnit = 1.0f / 8;
  static constexpr uint32_t kPlanes = 3;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {512, 128, 64};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 4, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 0, 8};
    return all[plane];
  }
  struct Raw {
    uint4 codes;
    uint32_t bits;
    uint2 scales;
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {plane_part<uint4>(at.plane[0], unit * 512),
            plane_part<uint32_t>(at.plane[1], unit * 128),
            plane_part<uint2>(at.plane[2], unit * 64)};
  }
  /// Less 16, eight times: the fifth bit turned over is the sign.
  INFER_DEVICE static void codes(const Raw& raw, uint32_t, uint32_t, uint32_t (&a)[8]) {
    const uint32_t bits = ~raw.bits;
#pragma unroll
    for (uint32_t r = 0; r < 4; ++r) {
      const uint32_t w = part_of(raw.codes, r);
      a[r] = ((w << 3) & 0x78787878u) | bit_of_bytes(bits, r, 7);
      a[4 + r] = ((w >> 1) & 0x78787878u) | bit_of_bytes(bits, 4 + r, 7);
    }
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
    half_scales(raw.scales, h, scale);
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
