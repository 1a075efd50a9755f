// NVFP4: engine/quant/nvfp4.h.
// kernels: column product stream tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kRun = 16;
  static constexpr uint32_t kPlanes = 2;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {512, 64};
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
    uint4 codes;
    uint2 scales;
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {plane_part<uint4>(at.plane[0], unit * 512), plane_part<uint2>(at.plane[1], unit * 64)};
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t, uint32_t, uint32_t (&a)[8]) {
    table_runs(raw.codes, fp4_levels(), a);
  }
  /// Half of the scale, as the levels are doubled. The pattern of NaN stands for zero.
  INFER_DEVICE static float half_scale(uint32_t bits) {
    if ((bits & 127) == 127) return 0;
    const uint32_t exponent = (bits >> 3) & 15;
    const float mantissa = static_cast<float>(bits & 7);
    if (exponent == 0) return mantissa * (1.0f / 1024.0f);
    return (1.0f + mantissa / 8.0f) * float_of((exponent + 119) << 23);
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t, uint32_t h, float (&scale)[4],
                                      float (&)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      scale[i] = half_scale((part_of(raw.scales, h) >> (i * 8)) & 255);
    }
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
