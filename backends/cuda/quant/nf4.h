// NF4: engine/quant/nf4.h.
// kernels: product embed_tiles
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

struct Weights : OrdinaryWeights {
  // A level is hi · 256 + lo, in units of 1 / 32512.
  static constexpr uint32_t kParts = 2;
  static constexpr float kFirst = 256.0f / 32512.0f;
  static constexpr float kSecond = 1.0f / 32512.0f;
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
  INFER_DEVICE static Raw load(const Place& at, uint32_t unit) {
    return {plane_part<uint4>(at.plane[0], unit * 512), plane_part<uint2>(at.plane[1], unit * 64)};
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t, uint32_t part, uint32_t (&a)[8]) {
    constexpr Levels kHigh{{0xcebda881u, 0x00f4e9dcu, 0x2b1f140au, 0x7f5c4738u}};
    constexpr Levels kLow{{0xd8519500u, 0x007089e0u, 0xea42701bu, 0x00d174f8u}};
    table_runs(raw.codes, part == 0 ? kHigh : kLow, a);
  }
  INFER_DEVICE static void scales(const Raw& raw, uint32_t, float (&scale)[2][2], float (&)[2][2]) {
    scale[0][0] = scale[0][1] = float_of(raw.scales.x);
    scale[1][0] = scale[1][1] = float_of(raw.scales.y);
  }
  INFER_DEVICE static float level(uint32_t code) {
    switch (code) {
      case 0: return -1.0f;
      case 1: return -0.6961928009986877f;
      case 2: return -0.5250730514526367f;
      case 3: return -0.39491748809814453f;
      case 4: return -0.28444138169288635f;
      case 5: return -0.18477343022823334f;
      case 6: return -0.09105003625154495f;
      case 7: return 0.0f;
      case 8: return 0.07958029955625534f;
      case 9: return 0.16093020141124725f;
      case 10: return 0.24611230194568634f;
      case 11: return 0.33791524171829224f;
      case 12: return 0.44070982933044434f;
      case 13: return 0.5626170039176941f;
      case 14: return 0.7229568362236023f;
      default: return 1.0f;
    }
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t, float (&v)[8][4]) {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      const float scale = float_of(part_of(raw.scales, i % 2));
#pragma unroll
      for (uint32_t byte = 0; byte < 4; ++byte) {
        const uint32_t nibble = i / 4 * 4 + byte;
        v[i][byte] = level((part_of(raw.codes, i % 4) >> (4 * nibble)) & 15) * scale;
      }
    }
  }
};

}  // namespace infer::cuda::INFER_TYPE
