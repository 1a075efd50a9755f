// How a product with a single column (weights/column.cu) is laid out on a GPU.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu.h"
#include "engine/core/dtype.h"

namespace infer::cuda {

/// What a launch computes.
struct ColumnWork {
  DType type;
  int64_t k;
  int64_t rows;     ///< tiles of 16 rows of all weights; of a Glu, of one
  int64_t weights;  ///< 2: of a Glu
  bool in_pieces;   ///< results are stored as bytes: both tiles of a piece are of one block
  int64_t others;   ///< blocks for each of those along the rows
};

struct ColumnShape {
  uint32_t share, stages;  ///< of ProductParams
  int64_t blocks;          ///< along the rows
  int64_t shared;          ///< bytes of dynamic shared memory
};
ColumnShape column_shape(const ColumnWork& work, const Gpu& gpu);

/// Whether a GPU has the shared memory for columns of k elements.
bool column_fits(DType type, int64_t k, const Gpu& gpu);

}  // namespace infer::cuda
