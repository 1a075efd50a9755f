// The layouts of weights on a GPU, and packing into them.
//
// A weight is divided into groups of rows, and along K into blocks. A layout has some planes: what
// belongs together is side by side. In each plane:
//   plane → group of rows → block → what the plane has of the block's rows
//
// The plain layout is that of fields. Each field of a type's blocks has a plane of its own. A field
// is divided into units of 16 bytes; if its size is not a multiple of 16, it is one unit. In each
// plane 32 rows of a matrix are side by side:
//   plane → group of 32 rows → block → unit of the field → row
// A lane computes a row. So the lanes of a subgroup, of any size, load consecutive words of 128
// bits, and no sum has to be passed between lanes: every kernel sums a row in the same order. (With
// lanes along K, each row would end in a tree over the lanes. A kernel for many columns could not
// repeat that cheaply.) If a group is not full, its last rows are zero.
//
// Types with one element per block are stored row by row, like vectors. f16 and bf16 count as
// blocks of 32; the last block of a row is filled up with zeros.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/core/tensor_desc.h"

namespace infer::gpu {

inline constexpr int kMaxPlanes = 5;

struct WeightLayout;

/// Packs `blocks` blocks of each row of a group of `rows` rows. Row i starts at stored + i *
/// stride. Plane p is written to out + starts[p].
using PackFn = void (*)(const WeightLayout& layout, const std::byte* stored, int64_t stride,
                        int64_t rows, int64_t blocks, std::byte* out,
                        const std::array<int64_t, kMaxPlanes>& starts);

/// What a layout of a back end's own is made of.
struct PackedForm {
  int64_t elements = 1;  ///< of a block: a multiple of the type's
  int64_t together = 1;  ///< rows of a group
  /// By plane: bytes of one block of all rows of a group.
  std::span<const int64_t> plane_bytes;
  PackFn pack = nullptr;
};

/// The places of a weight's planes.
struct WeightLayout {
  TensorDesc desc;
  PackFn pack = nullptr;
  size_t planes = 0;
  std::array<int64_t, kMaxPlanes> plane_bytes{};  ///< of one block of all rows of a group
  int64_t together = 1;                           ///< rows of a group
  int64_t block_bytes = 0;                        ///< stored bytes of a row's block
  int64_t row_blocks = 0;                         ///< blocks of a row; the last may be incomplete
  int64_t row_bytes = 0;                          ///< bytes of a stored row
  int64_t matrix_groups = 0;                      ///< groups of rows of one matrix
  int64_t groups = 0;                             ///< groups of rows of all matrices
  std::array<int64_t, kMaxPlanes> offsets{};  ///< bytes from the weight's start, multiples of 16
  int64_t bytes = 0;                          ///< of all planes

  /// The plain layout. f64 and i64 are converted to f32 while packing.
  explicit WeightLayout(const TensorDesc& desc);
  /// If the last block of a row is not full, `form.pack` gets zero bytes for its rest.
  WeightLayout(const TensorDesc& desc, const PackedForm& form);

  /// Bytes of one block of all rows of a group, in all planes.
  int64_t group_block_bytes() const;
  /// The rows of a group, as row numbers of the stored weight, counted over all matrices.
  struct Rows {
    int64_t first = 0;
    int64_t count = 0;
  };
  Rows rows_of(int64_t group) const;
};

}  // namespace infer::gpu
