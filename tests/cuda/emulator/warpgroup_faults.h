// Kernels of the emulator's own tests: products by warpgroups, copies of many bytes.
#pragma once

#include <cstdint>

namespace infer::cuda {

/// What the kernel of warpgroup_faults.cu does wrong.
enum class WrongProduct : uint32_t {
  nothing,
  not_shown,  ///< what its copies have brought
  not_fenced,
  not_waited,
  sums_changed,  ///< before the wait
  registers_changed,
  matrix_changed,
  other_matrix,  ///< begins behind the one that was copied
};

struct WarpgroupParams {
  uint64_t a;  ///< u32 [threads, 4]: registers
  uint64_t b;  ///< float16 [2, 16 columns, 8]: 8 elements of K of all columns, and the next 8
  uint64_t d;  ///< float32 [threads, 8]: 2 · A · B
  WrongProduct wrong;
  uint32_t unused;
};

enum class WrongCopy : uint32_t {
  nothing,
  not_waited,
  not_expected,
  too_few_expected,
  no_barrier,  ///< the copies' barrier is not made
};

struct BulkParams {
  uint64_t x, y;  ///< float32 [128]
  WrongCopy wrong;
  uint32_t unused;
};

}  // namespace infer::cuda
