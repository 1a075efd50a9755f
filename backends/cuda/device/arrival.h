// Which of several blocks comes last.
#pragma once

#include "backends/cuda/device/memory.h"

namespace infer::cuda {

/// Whether the block is the last of `count` blocks that come here with the same counter: it then
/// sees what all of them have written before. The counter is 0 before, and afterwards.
INFER_DEVICE bool comes_last(uint64_t counter, uint32_t count) {
  INFER_SHARED(uint32_t, last, 1);
  sync_block();
  if (count == 1) return true;
  if (thread() == 0) {
    const Global<uint32_t> arrived(counter);
    last[0] = atomic_add_in_order(arrived, 0, 1) + 1 == count ? 1 : 0;
    if (last[0] != 0) arrived[0] = 0;
  }
  sync_block();
  return last[0] != 0;
}

}  // namespace infer::cuda
