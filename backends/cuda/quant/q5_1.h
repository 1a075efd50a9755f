// Q5_1: engine/quant/q5_1.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr bool kUnsigned = true;
  static constexpr bool kLeast = true;
  static constexpr uint32_t kPlanes = 3;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {512, 128, 128};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 4, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 0, 16};
    return all[plane];
  }
  struct Raw {
    uint4 codes;
    uint32_t bits;
    uint4 scales;
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {plane_part<uint4>(at.plane[0], unit * 512),
            plane_part<uint32_t>(at.plane[1], unit * 128),
            plane_part<uint4>(at.plane[2], unit * 128)};
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t, uint32_t, uint32_t (&a)[8]) {
    fives(raw.codes, raw.bits, a);
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&least)[2]) {
    half_pairs(raw.scales, h, scale, least);
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
