// Weights as the host has them (HostLayout), repacked for the kernels of products. Both layouts are
// the same bits in another order, so one kernel serves all types: tables say where each word of a
// cell comes from. A cell is what a block of the kernels' layout has: some rows, and a block of
// each. Host and device code both include this.
#pragma once

#include <cstdint>

namespace infer::gpu {

/// Threads that repack a cell.
inline constexpr int kRepackThreads = 128;
inline constexpr int kRepackPlanes = 5;  ///< kMaxPlanes

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

/// What weights of one shape, type and layout of the host have in common.
struct RepackShape {
  uint64_t cells;         ///< CellWord [cell_words]
  uint64_t words;         ///< PackedWord [packed_words]
  uint64_t terms;         ///< PackedTerm
  uint64_t matrix_bytes;  ///< of the host's matrix
  uint64_t group_bytes;   ///< of the host's group of rows
  uint64_t offsets[kRepackPlanes];
  uint32_t plane_bytes[kRepackPlanes];
  uint32_t cell_words, packed_words;
  uint32_t matrix_groups;  ///< of the kernels' layout
  uint32_t cell_rows, row_blocks;
  uint32_t host_rows, host_groups;         ///< of a group, of a matrix
  uint32_t host_block_bytes, host_blocks;  ///< of a group's block; blocks of a row
  uint32_t stored_blocks;                  ///< of a cell's row
  uint32_t unused;
};

/// A piece of a weight: blocks of a row (x), groups of rows (y).
struct RepackParams {
  uint64_t from;         ///< where the host's first matrix begins, or would begin
  uint64_t to;           ///< the packed weight
  uint32_t first_group;  ///< of the piece, counted over all matrices
  uint32_t unused;
  RepackShape shape;
};
static_assert(sizeof(CellWord) == 8 && sizeof(PackedWord) == 16 && sizeof(PackedTerm) == 8);
static_assert(sizeof(RepackShape) == 144 && sizeof(RepackParams) == 168);

}  // namespace infer::gpu
