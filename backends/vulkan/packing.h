// How weights lie on the device. A type's blocks are taken apart into planes of equal fields, a
// field into units of 16 bytes (one of its own size where that is no multiple of 16), and in each
// plane 32 rows of a matrix lie side by side:
//   plane → group of 32 rows → block → unit of the field → row
// A lane computes a row, so the lanes of a subgroup of any size load consecutive words of 128 bits,
// and no sum has to be handed from lane to lane: a row is summed in one order by whatever has it.
// (With lanes along K instead, each row would end in a tree over the lanes, which a kernel for many
// columns could not repeat cheaply.) The last rows of a group that is not full are zero.
// Types of one element a block lie row by row, as vectors do; f16 and bf16 count as blocks of 32,
// the last of a row filled up with zeros. The GLSL twins in quant/ read the same planes.
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

/// Where the planes of a weight lie. f64 and i64 are converted to f32 on the way.
struct WeightLayout {
  TensorDesc desc;
  std::span<const Plane> planes;
  bool converted = false;
  int64_t together = 1;                       ///< rows side by side
  int64_t block_bytes = 0;                    ///< as stored
  int64_t row_blocks = 0;                     ///< the last may be cut short
  int64_t row_bytes = 0;                      ///< as stored
  int64_t matrix_groups = 0;                  ///< groups of rows of one matrix
  int64_t groups = 0;                         ///< of all
  std::array<int64_t, kMaxPlanes> offsets{};  ///< bytes from the weight's start, multiples of 16
  int64_t bytes = 0;                          ///< of all planes

  explicit WeightLayout(const TensorDesc& desc);

  /// Bytes of a block of all rows of a group: of one plane, and of all.
  int64_t group_block_bytes(size_t plane) const { return planes[plane].bytes * together; }
  int64_t group_block_bytes() const;
  /// The rows of a group in the weight as stored, matrix after matrix: the first and how many.
  struct Rows {
    int64_t first = 0;
    int64_t count = 0;
  };
  Rows rows_of(int64_t group) const;
};

/// Packs `blocks` blocks of the rows of a group. The i-th row's are at stored + i * stride; those
/// of plane p go to out + starts[p].
void pack_group(const WeightLayout& layout, const std::byte* stored, int64_t stride, int64_t rows,
                int64_t blocks, std::byte* out, const std::array<int64_t, kMaxPlanes>& starts);

}  // namespace infer::vulkan
