// Selects elements of a stored tensor, in order, as another tensor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "engine/core/tensor_desc.h"

namespace infer {

/// A rectangular view of one tensor; dimension 0 varies fastest. The functions return changed
/// views; their arguments must be within the view. Units are elements, or blocks (in_blocks()).
struct TensorView {
  int32_t weight = -1;  ///< index in the source's weights()
  int64_t offset = 0;
  std::array<int64_t, kMaxDims> shape{1, 1, 1, 1};
  std::array<int64_t, kMaxDims> stride{1, 1, 1, 1};

  int64_t size() const { return shape[0] * shape[1] * shape[2] * shape[3]; }

  /// A view of a whole tensor, with this shape.
  static TensorView whole(int32_t weight, std::array<int64_t, kMaxDims> shape) {
    TensorView view{weight, 0, shape, {}};
    int64_t step = 1;
    for (size_t d = 0; d < kMaxDims; ++d) {
      view.stride[d] = step;
      step *= shape[d];
    }
    return view;
  }
  TensorView swapped(size_t a, size_t b) const {
    TensorView view = *this;
    std::swap(view.shape[a], view.shape[b]);
    std::swap(view.stride[a], view.stride[b]);
    return view;
  }
  /// first, first + step, … of a dimension, `count` of them.
  TensorView sliced(size_t dim, int64_t first, int64_t count, int64_t step = 1) const {
    TensorView view = *this;
    view.offset += first * stride[dim];
    view.shape[dim] = count;
    view.stride[dim] *= step;
    return view;
  }
  /// The same view in units of blocks of `elements` along dimension 0. Nothing if the view does not
  /// consist of whole blocks.
  std::optional<TensorView> in_blocks(int64_t elements) const {
    TensorView view = *this;
    if (stride[0] != 1 || shape[0] % elements != 0 || offset % elements != 0) return std::nullopt;
    view.shape[0] /= elements;
    view.offset /= elements;
    for (size_t d = 1; d < kMaxDims; ++d) {
      if (shape[d] == 1) continue;
      if (stride[d] % elements != 0) return std::nullopt;
      view.stride[d] /= elements;
    }
    return view;
  }
};

}  // namespace infer
