// The layout of weights on the device.
//
// Each field of a type's blocks has a plane of its own. A field is divided into units of 16 bytes;
// if its size is not a multiple of 16, it is one unit. In each plane 32 rows of a matrix are side
// by side:
//   plane → group of 32 rows → block → unit of the field → row
// A lane computes a row. So the lanes of a subgroup, of any size, load consecutive words of 128
// bits, and no sum has to be passed between lanes: every kernel sums a row in the same order. (With
// lanes along K, each row would end in a tree over the lanes. A kernel for many columns could not
// repeat that cheaply.) If a group is not full, its last rows are zero.
//
// Types with one element per block are stored row by row, like vectors. f16 and bf16 count as
// blocks of 32; the last block of a row is filled up with zeros. The GLSL twins in quant/ read the
// same planes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/core/tensor_desc.h"

namespace infer::vulkan {

inline constexpr int kMaxPlanes = 5;

/// A field of a block as stored: bytes [offset, offset + bytes).
struct Plane {
  int32_t offset = 0;
  int32_t bytes = 0;

  int32_t unit() const { return bytes % 16 == 0 ? 16 : bytes; }
};

/// The places of a weight's planes. f64 and i64 are converted to f32 while packing.
struct WeightLayout {
  TensorDesc desc;
  std::span<const Plane> planes;
  bool converted = false;
  int64_t together = 1;                       ///< rows side by side
  int64_t block_bytes = 0;                    ///< bytes of a stored block
  int64_t row_blocks = 0;                     ///< blocks of a row; the last may be incomplete
  int64_t row_bytes = 0;                      ///< bytes of a stored row
  int64_t matrix_groups = 0;                  ///< groups of rows of one matrix
  int64_t groups = 0;                         ///< groups of rows of all matrices
  std::array<int64_t, kMaxPlanes> offsets{};  ///< bytes from the weight's start, multiples of 16
  int64_t bytes = 0;                          ///< of all planes

  explicit WeightLayout(const TensorDesc& desc);

  /// Bytes of one block of all rows of a group: in one plane, and in all planes.
  int64_t group_block_bytes(size_t plane) const { return planes[plane].bytes * together; }
  int64_t group_block_bytes() const;
  /// The rows of a group, as row numbers of the stored weight, counted over all matrices.
  struct Rows {
    int64_t first = 0;
    int64_t count = 0;
  };
  Rows rows_of(int64_t group) const;
};

/// Packs `blocks` blocks of each row of a group. Row i starts at stored + i * stride. Plane p is
/// written to out + starts[p].
void pack_group(const WeightLayout& layout, const std::byte* stored, int64_t stride, int64_t rows,
                int64_t blocks, std::byte* out, const std::array<int64_t, kMaxPlanes>& starts);

}  // namespace infer::vulkan
