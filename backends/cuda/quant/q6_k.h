// Q6_K: engine/quant/q6_k.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  static constexpr uint32_t kTiles = 4;
  static constexpr uint32_t kRun = 16;
  static constexpr float kUnit = 1.0f / 4;
  static constexpr uint32_t kPlanes = 3;
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {3072, 256, 32};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {16, 0, 0};
    return all[plane];
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    constexpr uint32_t all[] = {0, 32, 4};
    return all[plane];
  }
  struct Raw {
    uint4 codes[6];
    uint4 scales[2];
    uint32_t d;
  };
  template <typename From>
  INFER_DEVICE static void load_codes(const From& at, uint32_t unit, Raw& raw) {
#pragma unroll
    for (uint32_t c = 0; c < 6; ++c) {
      raw.codes[c] = plane_part<uint4>(at.plane[0], unit * 3072 + c * 512);
    }
    raw.d = plane_part<uint32_t>(at.plane[2], unit * 32);
  }
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    Raw raw;
    load_codes(at, unit, raw);
    raw.scales[0] = plane_part<uint4>(at.plane[1], unit * 256);
    raw.scales[1] = plane_part<uint4>(at.plane[1], unit * 256 + 16);
    return raw;
  }
  /// The same with the scales of row g + 8h alone.
  template <typename From>
  INFER_DEVICE static Raw load_row(const From& at, uint32_t unit, uint32_t h) {
    Raw raw;
    load_codes(at, unit, raw);
    raw.scales[0] = raw.scales[1] = plane_part<uint4>(at.plane[1], unit * 256 + 16 * h);
    return raw;
  }
  /// Codes are packed less 32, as six bits of two's complement: here in the upper bits of the
  /// bytes.
  INFER_DEVICE static void codes(const Raw& raw, uint32_t tile, uint32_t, uint32_t (&a)[8]) {
#pragma unroll
    for (uint32_t m = 0; m < 2; ++m) {
      uint32_t w[3];
#pragma unroll
      for (uint32_t r = 0; r < 3; ++r) {
        const uint32_t word = tile * 6 + m * 3 + r;
        w[r] = part_of(raw.codes[word / 4], word % 4);
        a[4 * m + r] = w[r] & 0xfcfcfcfcu;
      }
      a[4 * m + 3] =
          ((w[0] << 6) & 0xc0c0c0c0u) | ((w[1] << 4) & 0x30303030u) | ((w[2] << 2) & 0x0c0c0c0cu);
    }
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t tile, uint32_t h, float (&scale)[4],
                                      float (&)[4]) {
    const float d = half_of(h == 0 ? raw.d & 0xffffu : raw.d >> 16);
    const uint32_t word = part_of(of_row(raw.scales, h), tile);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) scale[i] = d * (raised_byte(word, i) - (kRaised + 128.0f));
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    values_of<Weights>(raw, tile, v);
  }
};

}  // namespace infer::cuda::INFER_TYPE
