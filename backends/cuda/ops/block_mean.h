// The means of blocks of keys: a thread takes an element through the rows of the step.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kBlockMeanThreads = 64;

/// Grid: elements, 1, blocks that share the sequences.
struct BlockMeanParams {
  uint64_t step, x, y, slots, sequences;
  uint32_t width;
  uint32_t x_stride, y_stride;  ///< of rows
  uint32_t kind;                ///< of pages
  uint32_t offset;              ///< of the state, in bytes
  uint32_t block;               ///< slots of a block of keys
  uint32_t sharing;             ///< blocks along z
  uint32_t unused;
};
static_assert(sizeof(BlockMeanParams) == 72);

}  // namespace infer::cuda
