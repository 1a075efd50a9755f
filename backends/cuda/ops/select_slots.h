// The slots that rows attend to: a block scores the keys of a row, a tile of kSelectKeys at once,
// and keeps the best in a buffer, in the order of the slots. When it is full, the worse ones go.
// Where whole blocks of slots are chosen, each has one key, at its last slot; where heads choose
// for themselves (select_slots_by_head), it has that of its slots which scores highest.
//
// If there are not rows enough for all multiprocessors, a row has a block for each part of its
// keys; then a second kernel takes the best of all parts: of many first those of each
// kSelectTogether, then of these. No cut changes what is chosen.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kSelectThreads = 128;
inline constexpr int kSelectMergeThreads = 1024;
inline constexpr uint32_t kSelectKeys = 256;  ///< of a tile
inline constexpr uint32_t kSelectHeads = 16;  ///< whose queries a block has at once
/// Parts of a row, at most: each has a tile of keys if a row sees 64 Ki of them.
inline constexpr uint32_t kSelectParts = 256;
inline constexpr uint32_t kSelectTogether = 16;  ///< parts that a block merges

/// select_slots, select_slots_by_head: grid: parts of a row, rows, lists of a row. Dynamic shared
/// memory: f32 [dim, padded to a multiple of 4, kSelectHeads], by head of one.
struct SelectSlotsParams {
  uint64_t step, q;
  uint64_t weights;  ///< 0: all are 1
  uint64_t slots, sequences, y;
  /// u64 [1 + room, parts, lists, rows]: how many there are, and those.
  uint64_t buffers;
  gpu::StridePush q_strides;
  uint32_t weights_stride, y_stride;  ///< of rows
  uint32_t list_stride;               ///< of y
  uint32_t heads, dim;
  uint32_t kind;             ///< of pages
  uint32_t k_offset, k_row;  ///< bytes
  uint32_t k_type;           ///< CacheType
  uint32_t across;           ///< 1: keys are transposed
  uint32_t whole;            ///< 1: four elements of a key can be loaded at once
  uint32_t count, room;      ///< of keys
  uint32_t block;            ///< slots that a key stands for
  uint32_t tokens;           ///< slots of a page that have one key: `block`, or 1
  uint32_t numbers;          ///< 1: blocks are numbered in place of slots
  uint32_t parts, lists;     ///< of each row
  uint32_t by_head;          ///< 1: heads choose for themselves
};
static_assert(sizeof(SelectSlotsParams) == 144);

/// select_slots_merge: grid: rows, lists, groups of kSelectTogether parts.
struct SelectMergeParams {
  SelectSlotsParams select;
  uint64_t from;  ///< u64 [1 + room, parts, lists, rows], as SelectSlotsParams::buffers
  uint64_t to;    ///< likewise [1 + count, groups, lists, rows]; 0: `select.y` gets the lists
  uint32_t room, parts;  ///< of `from`
  uint32_t joined;       ///< parts of select_slots that a part is made of
  uint32_t groups;
};
static_assert(sizeof(SelectMergeParams) == 176);

}  // namespace infer::cuda
