// Kernels of the emulator's own tests.
#pragma once

#include <cstdint>

namespace infer::cuda {

/// What a kernel of faults.cu does wrong.
enum Wrong : uint32_t {
  kNothing,
  kNoBarrier,         ///< between writing and reading shared memory
  kNoWarpBarrier,     ///< the same within a warp
  kSharedIndex,       ///< behind a shared array
  kGlobalIndex,       ///< behind an allocation
  kUnwritten,         ///< reads shared memory that nobody wrote
  kDivergentBarrier,  ///< half of the threads skip it
  kDivergentShuffle,
  kNoWait,  ///< for an asynchronous copy
  kNoBarrierAfterWait,
  kEarlyRead,  ///< before the kernel waits for the one before it
  kEarlyAsk,   ///< for what is behind an allocation
};

struct FaultParams {
  uint64_t x, y;
  uint32_t wrong;
  uint32_t unused;
};

struct MmaParams {
  uint64_t a, b, c, d;  ///< fragments by lane
};

}  // namespace infer::cuda
