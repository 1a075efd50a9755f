// Scales of a matrix, or of several of one shape: one for each rectangle of elements.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/safetensors/assembled.h"

namespace infer::safetensors {

/// How matrices lie in a tensor [columns, rows, matrices].
struct MatrixShape {
  int64_t columns = 0, rows = 0, matrices = 1;
  static MatrixShape of(const TensorDesc& desc);
};

class ScaleGrid {
 public:
  /// From the number of scales along each dimension: one in all, one for each matrix or row, or
  /// rectangles. `columns`, `rows`: those of a rectangle, in this order, if the checkpoint says
  /// them, else 0. bad_file if they do not fit the matrix.
  static Result<ScaleGrid> create(const StoredTensor& scales, const MatrixShape& shape,
                                  int64_t columns, int64_t rows);

  /// Elements of a row that share a scale.
  int64_t columns_each() const { return columns_each_; }
  int64_t across() const { return across_; }
  /// The line of scales that a row has. Rows are counted through all matrices.
  int64_t line_of(int64_t row) const;
  /// The scales of a line, in order of columns: each finite, else bad_file.
  Status read_line(int64_t line, std::vector<float>& out) const;

 private:
  explicit ScaleGrid(const StoredTensor& scales) : scales_(scales) {}

  StoredTensor scales_;
  int64_t matrix_rows_ = 0;
  int64_t columns_each_ = 0;
  int64_t rows_each_ = 0;
  int64_t across_ = 1;
  int64_t down_ = 1;  ///< lines of a matrix
};

/// Float32 of stored numbers: F32, F16 or BF16, or bytes, which are exponents (E8M0: 2^(byte −
/// 127)).
Status read_floats(const StoredTensor& tensor, int64_t first, int64_t count,
                   std::vector<float>& out);

}  // namespace infer::safetensors
