// Q8_0: engine/quant/q8_0.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kPlanes = 2;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {1024, 64};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 8};
    return all[plane];
  }
  struct Raw {
    uint4 codes[2];
    uint2 scales;
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {{plane_part<uint4>(at.plane[0], unit * 1024),
             plane_part<uint4>(at.plane[0], unit * 1024 + 512)},
            plane_part<uint2>(at.plane[1], unit * 64)};
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t, uint32_t, uint32_t (&a)[8]) {
#pragma unroll
    for (uint32_t r = 0; r < 8; ++r) a[r] = part_of(raw.codes[r / 4], r % 4);
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
