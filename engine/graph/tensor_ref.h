// A tensor in memory as a kernel sees it.
#pragma once

#include <cstddef>

#include "engine/core/tensor_desc.h"

namespace infer {

/// shape[2] is the rows of this run. Null data: an optional input that is not given.
struct TensorRef {
  TensorDesc desc;
  std::byte* data = nullptr;

  /// The row (i1, i2) along shape[0].
  template <typename T>
  T* row(int64_t i1, int64_t i2) const {
    return reinterpret_cast<T*>(data + i1 * desc.stride[1] + i2 * desc.stride[2]);
  }
};

}  // namespace infer
