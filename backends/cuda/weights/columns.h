// What the kernels of products share: which columns a block computes, their elements, and what
// becomes of a sum.
#pragma once

#include "backends/cuda/device/activation.h"
#include "backends/cuda/device/bytes.h"
#include "backends/cuda/device/norm.h"
#include "backends/cuda/device/step.h"
#include "backends/cuda/weights/product.h"

namespace infer::cuda {

// gpu::MatrixOf
inline constexpr uint32_t kMatrixOnly = 0;
inline constexpr uint32_t kMatrixByIds = 1;
inline constexpr uint32_t kMatrixByPlace = 2;
inline constexpr uint32_t kMatrixByGroups = 3;

/// The weight of the launch that has a row of tiles; none before `from` has it.
INFER_DEVICE uint32_t weight_of(const ProductParams& p, uint32_t row_tile, uint32_t from) {
  uint32_t which = from;
  while (which + 1 < p.weight_count && row_tile >= p.weights[which + 1].first_tile) ++which;
  return which;
}

/// Columns that are computed together: `count` of them, with one matrix.
struct Columns {
  uint32_t matrix, count;
  uint32_t place, first;  ///< of neighbours
  uint32_t list;          ///< of grouped ones: where in ids are place and column of each
};

/// `all`: the step's rows that are computed.
INFER_DEVICE Columns columns_of(const ProductParams& p, uint32_t all) {
  Columns of{0, 0, block_z(), block_y() * p.columns, 0};
  const Global<const int32_t> ids(p.ids);
  if (p.matrix == kMatrixByGroups) {
    if (block_y() >= static_cast<uint32_t>(ids[0])) return of;
    const uint32_t group = 4 + block_y() * 4;
    of.matrix = static_cast<uint32_t>(ids[group]);
    of.list = static_cast<uint32_t>(ids[group + 1]);
    of.count = static_cast<uint32_t>(ids[group + 2]);
    return of;
  }
  if (of.first < all) of.count = all - of.first < p.columns ? all - of.first : p.columns;
  if (p.matrix == kMatrixByIds && of.count > 0) {
    const auto id = static_cast<uint32_t>(ids[of.first * p.ids_stride + of.place]);
    of.matrix = id < p.matrices ? id : p.matrices - 1;
  }
  if (p.matrix == kMatrixByPlace) of.matrix = of.place;
  return of;
}

INFER_DEVICE Columns columns_of(const ProductParams& p) {
  return columns_of(p, step_rows(p.step, p.rows));
}

/// Place and row of a column.
struct Column {
  uint32_t place, row;
};
INFER_DEVICE Column column_of(const ProductParams& p, const Columns& of, uint32_t c) {
  if (p.matrix != kMatrixByGroups) return {of.place, of.first + c};
  const Global<const int32_t> ids(p.ids);
  return {static_cast<uint32_t>(ids[of.list + 2 * c]),
          static_cast<uint32_t>(ids[of.list + 2 * c + 1])};
}

INFER_DEVICE uint32_t column_start(const ProductParams& p, const Columns& of, uint32_t c) {
  const Column column = column_of(p, of, c);
  return place(p.x_strides, column.place, column.row);
}

/// Where a column is in ProductParams::bytes.
INFER_DEVICE uint32_t column_number(const ProductParams& p, const Columns& of, uint32_t c) {
  const Column column = column_of(p, of, c);
  return column.row * p.bytes.d1 + (p.bytes.d1 > 1 ? column.place : 0);
}

/// Elements i to i + 3 of the column that begins at x[from], zeros from k on. `factor`: of its
/// norm.
INFER_DEVICE float4 four_of_column(const ProductParams& p, uint32_t from, uint32_t i,
                                   float factor) {
  const float4 v = four_elements(Global<const float>(p.x), from, i, p.k, p.aligned);
  return p.normed != 0 ? normed(v, factor, p.norm, i, p.k) : v;
}

/// The sum of a row, with the scale and bias of its matrix.
INFER_DEVICE float finished(const MatrixParams& of, float sum, uint32_t matrix, uint32_t row) {
  const float scale = of.scale != 0 ? Global<const float>(of.scale)[matrix] : 1.0f;
  const float bias =
      of.bias != 0 ? Global<const float>(of.bias)[int64_t{matrix} * of.n + row] : -0.0f;
  return fused(sum, scale, bias);
}

/// A result, with what follows it. `second` and `up`: the other weight of a Glu and its sum.
INFER_DEVICE float result_of(const ProductParams& p, const MatrixParams& of,
                             const MatrixParams& second, float sum, float up, uint32_t matrix,
                             const Column& column, uint32_t row) {
  float all = finished(of, sum, matrix, row);
  if (p.after == kAfterSum) {
    const uint32_t from = place(of.residual_strides, column.place, column.row) + row;
    all = fused(of.factor, all, Global<const float>(of.residual)[from]);
  } else if (p.after >= kAfterGlu) {
    all = activated(p.after - kAfterGlu, p.alpha, p.limit, all, finished(second, up, matrix, row));
  }
  return all;
}
/// Puts it in its place.
INFER_DEVICE void finish(const ProductParams& p, const MatrixParams& of, const MatrixParams& second,
                         float sum, float up, uint32_t matrix, const Column& column, uint32_t row) {
  Global<float>(of.y)[place(of.y_strides, column.place, column.row) + row] =
      result_of(p, of, second, sum, up, matrix, column, row);
}

}  // namespace infer::cuda
