// Types of 4-bit codes with one scale for 64 weights, whose levels are those of a codebook:
//   Levels high(), low()      the levels in units of 1 / 32512, as hi · 256 + lo
//   float level(code)         one of them
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda::INFER_TYPE {

template <typename Book>
struct CodebookWeights : OrdinaryWeights {
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
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    return {plane_part<uint4>(at.plane[0], unit * 512), plane_part<uint2>(at.plane[1], unit * 64)};
  }
  INFER_DEVICE static void codes(const Raw& raw, uint32_t, uint32_t part, uint32_t (&a)[8]) {
    table_runs(raw.codes, part == 0 ? Book::high() : Book::low(), a);
  }
  INFER_DEVICE static void row_scales(const Raw& raw, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
    scale[0] = scale[1] = float_of(part_of(raw.scales, h));
  }
  INFER_DEVICE static void values(const Raw& raw, uint32_t, float (&v)[8][4]) {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      const float scale = float_of(part_of(raw.scales, i % 2));
#pragma unroll
      for (uint32_t byte = 0; byte < 4; ++byte) {
        const uint32_t nibble = i / 4 * 4 + byte;
        v[i][byte] = Book::level((part_of(raw.codes, i % 4) >> (4 * nibble)) & 15) * scale;
      }
    }
  }
};

}  // namespace infer::cuda::INFER_TYPE
