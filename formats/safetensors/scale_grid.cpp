#include "formats/safetensors/scale_grid.h"

#include <algorithm>
#include <cmath>

#include "engine/core/checked.h"
#include "engine/core/half.h"

namespace infer::safetensors {

MatrixShape MatrixShape::of(const TensorDesc& desc) {
  return {desc.shape[0], desc.shape[1], desc.shape[2] * desc.shape[3]};
}

Result<ScaleGrid> ScaleGrid::create(const StoredTensor& scales, const MatrixShape& shape,
                                    int64_t columns, int64_t rows) {
  const TensorDesc& desc = scales.entry.desc;
  ScaleGrid grid(scales);
  grid.matrix_rows_ = shape.rows;
  const MatrixShape found = MatrixShape::of(desc);
  const int64_t count = desc.elements();
  const bool by_row = found.columns == 1 && found.rows == shape.rows;
  if (count == shape.matrices) {
    grid.rows_each_ = shape.rows;
    grid.columns_each_ = shape.columns;
    return grid;
  }
  if (count == shape.rows * shape.matrices && (by_row || count == found.columns)) {
    grid.rows_each_ = 1;
    grid.columns_each_ = shape.columns;
    grid.down_ = shape.rows;
    return grid;
  }
  grid.across_ = found.columns;
  grid.down_ = found.rows;
  const auto side = [](int64_t size, int64_t parts, int64_t said) {
    return said > 0 ? said : size % parts == 0 ? size / parts : 0;
  };
  grid.columns_each_ = side(shape.columns, grid.across_, columns);
  grid.rows_each_ = side(shape.rows, grid.down_, rows);
  if (grid.columns_each_ > 0 && grid.rows_each_ > 0 && found.matrices == shape.matrices &&
      div_ceil(shape.columns, grid.columns_each_) == grid.across_ &&
      div_ceil(shape.rows, grid.rows_each_) == grid.down_) {
    return grid;
  }
  return tl::unexpected(bad_tensor(
      scales, fmt::format("expected scales of {} matrices of {} rows and {} columns, found {}",
                          shape.matrices, shape.rows, shape.columns, shape_string(desc))));
}

int64_t ScaleGrid::line_of(int64_t row) const {
  return row / matrix_rows_ * down_ + row % matrix_rows_ / rows_each_;
}

Status ScaleGrid::read_line(int64_t line, std::vector<float>& out) const {
  INFER_CHECK(read_floats(scales_, line * across_, across_, out));
  for (const float scale : out) {
    if (!std::isfinite(scale)) {
      return bad_tensor(scales_, fmt::format("expected finite scales, found {}", scale));
    }
  }
  return {};
}

Status read_floats(const StoredTensor& tensor, int64_t first, int64_t count,
                   std::vector<float>& out) {
  out.resize(static_cast<size_t>(count));
  if (tensor.entry.desc.type == DType::f32) return read_part(tensor, first, count, out.data());
  if (tensor.entry.desc.type == DType::i8) {
    std::vector<uint8_t> exponents(out.size());
    INFER_CHECK(read_part(tensor, first, count, exponents.data()));
    std::ranges::transform(exponents, out.begin(),
                           [](uint8_t e) { return std::ldexp(1.0f, e - 127); });
    return {};
  }
  std::vector<uint16_t> halves(out.size());
  INFER_CHECK(read_part(tensor, first, count, halves.data()));
  const bool brain = tensor.entry.desc.type == DType::bf16;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = brain ? bf16_to_f32(halves[i]) : f16_to_f32(halves[i]);
  }
  return {};
}

}  // namespace infer::safetensors
