// The sums of products of integers on tensor cores, included after the header of a type of the
// fragment layout.
//
// Activations are rounded to bytes (device/bytes.h). The integer sum of a run of weights and
// activations is exact. It is scaled by the activations' scale, then by that of the weights, and
// added; then the run's offset, if the type has one, times the sum of its activations.
//
// Sums of integers begin at 2^23 + 2^22, so that their bits are those of a float: fused(sum, scale,
// raised_scale(scale)) converts and scales in one operation, exactly rounded, because a scale of
// activations has no more than 22 bits.
//
// In which order the runs of a row are added follows from K alone, and is the same in
// weights/column.cu, stream.cu and tile.cu: K is shared out in kProductWarps stretches of whole
// units; each has a sum of its even tiles and one of its odd ones, from the begin of the stretch;
// these 2 · kProductWarps sums are added one after the other.
#pragma once

#include "backends/cuda/device/mma.h"
#include "backends/cuda/weights/columns.h"
#include "backends/cuda/weights/stretch.h"

namespace infer::cuda::INFER_TYPE {

constexpr uint32_t kRuns = Weights::kRuns;
/// Of a tile, those whose activations are summed.
constexpr uint32_t kSumRuns = Weights::kLeast ? kRuns : 0;
/// What a level of a part is in units of the scale.
INFER_DEVICE constexpr float part_unit(uint32_t part) {
  return part == 0 ? Weights::kFirst : Weights::kSecond;
}

/// What the sums of integers begin with, in registers.
struct Start {
  int32_t of[4];
};

/// A tile of 16 rows and 64 elements of K as a lane has it.
struct RowCodes {
  uint32_t a[Weights::kParts][8];
  float scale[2][kRuns];
  float least[2][kRuns];
};
INFER_DEVICE RowCodes row_codes(const typename Weights::Raw& raw, uint32_t tile) {
  RowCodes rows;
#pragma unroll
  for (uint32_t part = 0; part < Weights::kParts; ++part) {
    Weights::registers(raw, tile, part, rows.a[part]);
  }
  Weights::scales(raw, tile, rows.scale, rows.least);
  return rows;
}

/// The same of 8 columns: those of number 2t and 2t + 1 of the lane t of a group.
struct ColumnPart {
  uint4 b;              ///< registers of B of both products
  float scale[2][2];    ///< by product and column
  float raised[2][2];   ///< raised_scale() of them
  float sum[2][kRuns];  ///< negative_sum() of the runs, by column
};
/// The sums of a column's runs, of which `at` is the first; nothing of types without offsets.
INFER_DEVICE void load_sums(float (&to)[kRuns], const SharedPtr<float>& sums, uint32_t at) {
  if constexpr (kSumRuns == 2) {
    const float2 both = load_shared<float2>(sums, at);
    to[0] = both.x;
    to[1] = both.y;
  } else if constexpr (kSumRuns == 4) {
    const float4 all = load_shared<float4>(sums, at);
    to[0] = all.x;
    to[1] = all.y;
    to[2] = all.z;
    to[3] = all.w;
  }
}

/// sums[2h + j]: rows g + 8h, columns 2t + j of the lane. Adds the product of a tile.
INFER_DEVICE void add_runs(const RowCodes& rows, const ColumnPart& column, const Start& start,
                           float (&sums)[4]) {
#pragma unroll
  for (uint32_t run = 0; run < kRuns; ++run) {
    const uint32_t m = run * Weights::kRun / 32;
#pragma unroll
    for (uint32_t part = 0; part < Weights::kParts; ++part) {
      const uint32_t(&a)[8] = rows.a[part];
      int32_t d[4];
      if constexpr (Weights::kRun == 32) {
        const uint32_t of_a[4] = {a[4 * m], a[4 * m + 1], a[4 * m + 2], a[4 * m + 3]};
        const uint32_t of_b[2] = {part_of(column.b, 2 * m), part_of(column.b, 2 * m + 1)};
        if constexpr (Weights::kUnsigned) {
          mma_u8(d, of_a, of_b, start.of);
        } else {
          mma_s8(d, of_a, of_b, start.of);
        }
      } else {
        const uint32_t of_a[2] = {a[2 * run], a[2 * run + 1]};
        const uint32_t of_b[1] = {part_of(column.b, run)};
        if constexpr (Weights::kUnsigned) {
          mma_u8(d, of_a, of_b, start.of);
        } else {
          mma_s8(d, of_a, of_b, start.of);
        }
      }
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const float product = fused(float_of(static_cast<uint32_t>(d[i])), column.scale[m][i % 2],
                                    column.raised[m][i % 2]);
        const float scale = rows.scale[i / 2][run];
        const float own = Weights::kParts == 1 ? scale : scale * part_unit(part);
        sums[i] = fused(own, product, sums[i]);
      }
    }
    if constexpr (Weights::kLeast) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        sums[i] = fused(rows.least[i / 2][run], column.sum[i % 2][run], sums[i]);
      }
    }
  }
}

}  // namespace infer::cuda::INFER_TYPE
