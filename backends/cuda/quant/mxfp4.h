// MXFP4: engine/quant/mxfp4.h.
// kernels: column product stream tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kPlanes = 2;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {512, 32};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 4};
    return all[plane];
  }
  struct Raw {
    uint4 codes;
    uint32_t exponents;
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {plane_part<uint4>(at.plane[0], unit * 512),
            plane_part<uint32_t>(at.plane[1], unit * 32)};
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t, uint32_t, uint32_t (&a)[8]) {
    table_runs(raw.codes, fp4_levels(), a);
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
#pragma unroll
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t e = (raw.exponents >> (16 * h + 8 * m)) & 255;
      scale[m] = float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
