#include "engine/core/tensor_desc.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/core/checked.h"

namespace infer {

int64_t TensorDesc::extent_bytes() const {
  if (elements() == 0) return 0;
  int64_t last = row_bytes();
  for (int d = 1; d < kMaxDims; ++d) last += (shape[d] - 1) * stride[d];
  return last;
}

bool TensorDesc::contiguous() const {
  int64_t expected = row_bytes();
  if (stride[0] != dtype_info(type).block_bytes) return false;
  for (int d = 1; d < kMaxDims; ++d) {
    if (shape[d] != 1 && stride[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

Result<TensorDesc> make_tensor(DType type, std::span<const int64_t> shape) {
  const DTypeInfo& info = dtype_info(type);
  if (shape.size() > kMaxDims) {
    return fail(StatusCode::invalid_argument, "a tensor has at most {} dimensions, found {}",
                kMaxDims, shape.size());
  }
  TensorDesc desc;
  desc.type = type;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) {
      return fail(StatusCode::invalid_argument, "dimension {} is {}, expected at least 0", d,
                  shape[d]);
    }
    desc.shape[d] = shape[d];
  }
  if (desc.shape[0] % info.block_elements != 0) {
    return fail(StatusCode::invalid_argument,
                "rows of {} elements are not a whole number of {} blocks of {}", desc.shape[0],
                info.name, info.block_elements);
  }
  desc.stride[0] = info.block_bytes;
  std::optional<int64_t> bytes =
      checked_mul<int64_t>(desc.shape[0] / info.block_elements, info.block_bytes);
  std::optional<int64_t> rows = 1;  // checked apart: an empty first dimension would hide it
  for (int d = 1; d < kMaxDims && bytes && rows; ++d) {
    desc.stride[d] = *bytes;
    bytes = checked_mul(*bytes, desc.shape[d]);
    rows = checked_mul(*rows, std::max<int64_t>(desc.shape[d], 1));
  }
  if (!bytes || !rows || *bytes > (int64_t{1} << 62)) {
    return fail(StatusCode::invalid_argument, "the size of {} [{}] exceeds 2^62 bytes", info.name,
                fmt::join(shape, ", "));
  }
  return desc;
}

TensorDesc tensor(DType type, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
  const std::array<int64_t, kMaxDims> shape{d0, d1, d2, d3};
  return make_tensor(type, shape).value();
}

std::string shape_string(const TensorDesc& desc) {
  size_t rank = kMaxDims;
  while (rank > 1 && desc.shape[rank - 1] == 1) --rank;
  return fmt::format("[{}]", fmt::join(std::span(desc.shape).first(rank), ", "));
}

std::string to_string(const TensorDesc& desc) {
  return fmt::format("{} {}", dtype_info(desc.type).name, shape_string(desc));
}

}  // namespace infer
