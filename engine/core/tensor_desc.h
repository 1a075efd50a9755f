// What a tensor looks like: element type, shape and strides. shape[0] runs fastest in memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "engine/core/dtype.h"
#include "engine/core/status.h"

namespace infer {

inline constexpr int kMaxDims = 4;

/// A tensor of up to four dimensions. Unused dimensions are 1. Strides are in bytes; stride[0] is
/// the bytes of one block. Build with make_tensor, which checks every product.
struct TensorDesc {
  DType type = DType::f32;
  std::array<int64_t, kMaxDims> shape{1, 1, 1, 1};
  std::array<int64_t, kMaxDims> stride{4, 4, 4, 4};

  int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  /// Rows along shape[0].
  int64_t rows() const { return shape[1] * shape[2] * shape[3]; }
  /// Bytes of one row along shape[0].
  int64_t row_bytes() const {
    return shape[0] / dtype_info(type).block_elements * dtype_info(type).block_bytes;
  }
  /// Bytes from the first to one past the last element, for positive strides.
  int64_t extent_bytes() const;
  bool contiguous() const;
  bool same_shape(const TensorDesc& other) const { return shape == other.shape; }
};

/// A contiguous tensor. Fails (invalid_argument) on a negative dimension, a first dimension that is
/// not a whole number of blocks, more than kMaxDims dimensions, or a size beyond 2^62 bytes.
Result<TensorDesc> make_tensor(DType type, std::span<const int64_t> shape);

/// The same for shapes known to be good; a bad one is a defect of the caller.
TensorDesc tensor(DType type, int64_t d0, int64_t d1 = 1, int64_t d2 = 1, int64_t d3 = 1);

/// "Q4_0 [4096, 32000]": trailing dimensions of one are left out.
std::string to_string(const TensorDesc& desc);
/// "[4096, 32000]".
std::string shape_string(const TensorDesc& desc);

}  // namespace infer
