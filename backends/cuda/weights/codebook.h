// Types of 4-bit codes with one scale for 64 weights, whose levels are those of a codebook:
//   Levels high(), low()      the levels in units of 1 / 32512, as hi · 256 + lo
//   float level(code)         one of them
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda {

template <typename Book>
struct CodebookType : OrdinaryType {
  // A level is hi · 256 + lo, in units of 1 / 32512.
  static constexpr uint32_t kParts = 2;
  static constexpr float kFirst = 256.0f / 32512.0f;
  static constexpr float kSecond = 1.0f / 32512.0f;
  static constexpr uint32_t kScaleBytes = 64;
  using Scales = uint2;  ///< a float of each row
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return plane_part<uint2>(at[0], unit * kScaleBytes);
  }
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t part, uint32_t (&q)[4]) {
    table_runs(row, part == 0 ? Book::high() : Book::low(), q);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
    scale[0] = scale[1] = float_of(part_of(scales, h));
  }
  INFER_DEVICE static float level(const RowWords<2>& row, uint32_t i, uint32_t byte) {
    return Book::level((row.word[i % 2] >> (16 * (i / 2) + 4 * byte)) & 15);
  }
};

}  // namespace infer::cuda
