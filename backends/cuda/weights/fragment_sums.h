// The sums of products of integers, included after the header of a type of the fragment layout.
//
// Activations are rounded to bytes (device/bytes.h). The integer sum of a run of weights and
// activations is exact. It is scaled by the activations' scale, then by that of the weights, and
// added.
//
// Sums of integers begin at 2^23 + 2^22, so that their bits are those of a float: fused(sum, scale,
// raised_scale(scale)) converts and scales in one operation, exactly rounded, because a scale of
// activations has no more than 22 bits.
//
// Offsets of weights times sums of activations are products of matrices with K = the runs of a
// tile: both are sums of two TF32, and so exact but for what is below 2^-22 of the activations'
// sum, and for how tensor cores round what they add.
#pragma once

#include "backends/cuda/device/mma.h"
#include "backends/cuda/weights/columns.h"

namespace infer::cuda::INFER_TYPE {

constexpr uint32_t kRuns = 64 / Weights::kRun;

/// What the sums of integers begin with, in registers.
struct Start {
  int32_t of[4];
};

/// A tile of 16 rows and 64 elements of K as a lane has it.
struct RowCodes {
  uint32_t a[Weights::kParts][8];
  float scale[2][kRuns];
  float least[2][kRuns];  ///< without kHasTf32
  /// Registers of A: the offset of the lane's run, t % kRuns, in two parts.
  uint32_t offsets[4];
};
INFER_DEVICE RowCodes row_codes(const typename Weights::Raw& raw, uint32_t tile) {
  RowCodes rows;
#pragma unroll
  for (uint32_t part = 0; part < Weights::kParts; ++part) {
    Weights::codes(raw, tile, part, rows.a[part]);
  }
  Weights::scales(raw, tile, rows.scale, rows.least);
  if constexpr (Weights::kLeast && kHasTf32) {
    float least[2];
    Weights::leasts(raw, tile, lane() % kRuns, least);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      rows.offsets[h] = bits_of(least[h]) & 0xffffe000u;
      rows.offsets[2 + h] = bits_of(least[h] - float_of(rows.offsets[h]));
    }
  }
  return rows;
}

/// The same of 8 columns: those of number 2t and 2t + 1 of the lane t of a group.
struct ColumnPart {
  uint4 b;             ///< registers of B of both products
  float scale[2][2];   ///< by product and column
  float raised[2][2];  ///< kRaisedScale of them
  /// Registers of B: the parts of the sums of column g, [parts · runs] a column; a lane has number
  /// t, and if there are eight also number 4 + t.
  uint32_t offsets[kRuns / 2];
  float sum[kRuns][2];  ///< without kHasTf32; negative
};
/// `parts`: of negative_parts(), [column][2][kRuns]; `own`: where number t of column g is, `pair`:
/// columns 2t and 2t + 1.
template <typename Parts>
INFER_DEVICE void load_offsets(ColumnPart& column, const Parts& parts, uint32_t own,
                               const uint32_t (&pair)[2]) {
  if constexpr (kHasTf32) {
#pragma unroll
    for (uint32_t i = 0; i < kRuns / 2; ++i) {
      column.offsets[i] = bits_of(parts[own + 4 * i]);
    }
  } else {
#pragma unroll
    for (uint32_t c = 0; c < 2; ++c) {
#pragma unroll
      for (uint32_t run = 0; run < kRuns; ++run) {
        const uint32_t at = pair[c] * 2 * kRuns + run;
        column.sum[run][c] = parts[at] + parts[at + kRuns];
      }
    }
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
      constexpr float kUnits[2] = {Weights::kFirst, Weights::kSecond};
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const float product = fused(float_of(static_cast<uint32_t>(d[i])), column.scale[m][i % 2],
                                    column.raised[m][i % 2]);
        const float own =
            Weights::kParts == 1 ? rows.scale[i / 2][run] : rows.scale[i / 2][run] * kUnits[part];
        sums[i] = fused(own, product, sums[i]);
      }
    }
    if constexpr (Weights::kLeast && !kHasTf32) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        sums[i] = fused(rows.least[i / 2][run], column.sum[run][i % 2], sums[i]);
      }
    }
  }
  if constexpr (Weights::kLeast && kHasTf32) {
#pragma unroll
    for (uint32_t i = 0; i < kRuns / 2; ++i) {
      // Both parts of the offsets meet the same part of the sums.
      mma_tf32(sums, rows.offsets, {column.offsets[i], column.offsets[i]}, sums);
    }
  }
}

}  // namespace infer::cuda::INFER_TYPE
