// Q4_K: engine/quant/q4_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kTiles = 4;
  static constexpr bool kUnsigned = true;
  static constexpr bool kLeast = true;
  static constexpr uint32_t kPlanes = 2;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {2048, 256};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 32};
    return all[plane];
  }
  struct Raw {
    uint4 codes[4];
    uint4 heads[2];
  };
  template <typename From>
  INFER_DEVICE static void load_codes(const From& at, uint32_t unit, Raw& raw) {
#pragma unroll
    for (uint32_t c = 0; c < 4; ++c) {
      raw.codes[c] = plane_part<uint4>(at.plane[0], unit * 2048 + c * 512);
    }
  }
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    Raw raw;
    load_codes(at, unit, raw);
    raw.heads[0] = plane_part<uint4>(at.plane[1], unit * 256);
    raw.heads[1] = plane_part<uint4>(at.plane[1], unit * 256 + 16);
    return raw;
  }
  /// The same with the scales of row g + 8h alone.
  template <typename From>
  INFER_DEVICE static Raw load_row(const From& at, uint32_t unit, uint32_t h) {
    Raw raw;
    load_codes(at, unit, raw);
    raw.heads[0] = raw.heads[1] = plane_part<uint4>(at.plane[1], unit * 256 + 16 * h);
    return raw;
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t tile, uint32_t, uint32_t (&a)[8]) {
    unsigned_pairs(raw.codes[tile], a);
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t tile, uint32_t h, float (&scale)[2],
                                      float (&least)[2]) {
    k_scales_of(of_row(raw.heads, h), tile, 1.0f / 16, scale, least);
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
