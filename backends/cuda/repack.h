// Weights as the host has them (HostLayout), repacked for the kernels of products. Both layouts are
// the same bits in another order, so one kernel serves all types: tables say where each word of a
// cell comes from. A cell is what a block of the kernels' layout has: some rows, and a block of
// each.
#pragma once

#include <cstdint>

namespace infer::cuda {

inline constexpr int kRepackThreads = 128;
inline constexpr int kRepackPlanes = 5;  ///< gpu::kMaxPlanes
/// Words of a cell, at most: 16 rows of 256 bytes.
inline constexpr uint32_t kCellWords = 1024;

/// Where a word of the cell is read: byte `at` of the host's block, and so much further for each
/// row of its group before the cell's first.
struct CellWord {
  uint32_t at;
  uint16_t unit;   ///< bytes of a row there
  uint8_t group;   ///< of the host's groups that the cell has
  uint8_t stored;  ///< of the stored blocks of a row that the cell has
};

/// A word of the kernels' layout: `flip`, and terms [first, first + terms) over that.
struct PackedWord {
  uint32_t first;
  uint16_t terms;
  uint16_t plane;
  uint32_t at;  ///< bytes, from the begin of the plane's part of the cell
  uint32_t flip;
};

/// Word `word` of the cell, turned left by `turn` bits, where `mask` has bits.
struct PackedTerm {
  uint16_t word;
  uint16_t turn;
  uint32_t mask;
};

/// Blocks: blocks of a row (x), groups of rows (y).
struct RepackParams {
  uint64_t from;          ///< where the host's first matrix begins, or would begin
  uint64_t to;            ///< the packed weight
  uint64_t cells;         ///< CellWord [cell_words]
  uint64_t words;         ///< PackedWord [packed_words]
  uint64_t terms;         ///< PackedTerm
  uint64_t matrix_bytes;  ///< of the host's matrix
  uint64_t group_bytes;   ///< of the host's group of rows
  uint64_t offsets[kRepackPlanes];
  uint32_t plane_bytes[kRepackPlanes];
  uint32_t cell_words, packed_words;
  uint32_t first_group;    ///< of the grid, counted over all matrices
  uint32_t matrix_groups;  ///< of the kernels' layout
  uint32_t cell_rows, row_blocks;
  uint32_t host_rows, host_groups;         ///< of a group, of a matrix
  uint32_t host_block_bytes, host_blocks;  ///< of a group's block; blocks of a row
  uint32_t stored_blocks;                  ///< of a cell's row
};
static_assert(sizeof(CellWord) == 8 && sizeof(PackedWord) == 16 && sizeof(PackedTerm) == 8);
static_assert(sizeof(RepackParams) == 160);

}  // namespace infer::cuda
