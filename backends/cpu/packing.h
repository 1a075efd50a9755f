// Weights as the CPU's kernels read them: groups of rows interleaved, so that a vector holds the
// same place of every row of a group. A block keeps its bytes and their order; each field of it
// (4 bytes where the type allows) is followed by the same field of the next row:
//   [matrix][group of rows][block][field][row]
// So sums need no exchange between lanes, one row group is one stream, and packing is a transpose.
// Only the float32 scales of NF4 and FP4 change: they are rounded to binary16, whose error is small
// beside that of activations in 8 bits (which is all that packed weights are multiplied with).
// The last group of a matrix is filled up with rows of zero bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/tensor_desc.h"

namespace infer {
struct HostLayout;
}

namespace infer::cpu {

struct PackedLayout {
  TensorDesc desc;
  int64_t rows;  ///< of a group

  int64_t groups() const { return (desc.shape[1] + rows - 1) / rows; }
  /// Bytes of a block of one row.
  int64_t block_bytes() const;
  int64_t group_bytes() const {
    return desc.shape[0] / dtype_info(desc.type).block_elements * block_bytes() * rows;
  }
  int64_t matrix_bytes() const { return groups() * group_bytes(); }
  /// None if numbers are rounded.
  std::optional<HostLayout> host_layout() const;
  int64_t bytes() const { return matrix_bytes() * desc.shape[2] * desc.shape[3]; }
};

/// Interleaves `count` ≤ `rows` rows, `stride` bytes apart in `from`, into one group at `to`.
void pack_group(const PackedLayout& layout, const std::byte* from, int64_t stride, int64_t count,
                std::byte* to);

/// Restores row `row` of a group to its form in the file, except for rounded scales.
void unpack_row(const PackedLayout& layout, const std::byte* group, int64_t row, std::byte* to);

}  // namespace infer::cpu
