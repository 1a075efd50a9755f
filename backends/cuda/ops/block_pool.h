// The means of blocks by gates: a thread takes an element through the rows of the step.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kBlockPoolThreads = 64;

/// Grid: elements, 1, blocks that share the sequences.
struct BlockPoolParams {
  uint64_t step, x, gate, y, slots, sequences;
  uint32_t width;                            ///< elements of a result
  uint32_t x_stride, gate_stride, y_stride;  ///< of rows
  uint32_t kind;                             ///< of pages
  uint32_t offset;                           ///< of the state, in bytes
  uint32_t block;                            ///< slots of a block
  uint32_t overlaps;                         ///< 1: blocks overlap
  uint32_t sharing;                          ///< blocks along z
  uint32_t unused;
};
static_assert(sizeof(BlockPoolParams) == 88);

}  // namespace infer::cuda
