// How fast matrices of float16 are multiplied by warpgroups: kWarpgroupRateChains products of 64 rows
// and 128 columns a round, A in registers and B in shared memory. The module has this kernel where
// weights/warpgroup_tile.cu has its: what was compiled for all functions of compute capability 9.0
// (sm_90a).
#if defined(INFER_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "backends/cuda/device/memory.h"
#include "backends/cuda/device/warpgroup.h"
#include "backends/cuda/rate.h"

namespace infer::cuda {

INFER_KERNEL(warpgroup_rate, RateParams, kRateThreads, 2) {
  constexpr uint32_t kColumns = kWarpgroupRateColumns;
  INFER_SHARED(uint32_t, b, kColumns * 8);  // 16 elements of K
  const uint32_t index = block_x() * kRateThreads + thread();
  // Small numbers that differ, not zeros: what switches takes power, and so speed.
  for (uint32_t i = thread(); i < kColumns * 8; i += kRateThreads) {
    b[i] = 0xb0003000u ^ ((index + i) * 2246822519u & 0x03ff03ffu);
  }
  show_products();
  sync_block();
  uint32_t a[4];
  for (uint32_t i = 0; i < 4; ++i) {
    a[i] = 0x30003000u ^ (index * 2654435761u >> (2 * i) & 0x03ff03ffu);
  }
  const uint64_t matrix = product_matrix(SharedPtr<uint32_t>(b), kColumns * 16, 128);
  float sums[kColumns / 2];
  for (uint32_t r = 0; r < p.rounds; ++r) {
    warpgroup_fence();
#pragma unroll
    for (uint32_t i = 0; i < kWarpgroupRateChains; ++i) {
      warpgroup_product(sums, a, matrix, r > 0 || i > 0);
    }
    warpgroup_commit();
    warpgroup_wait<0>();
  }
  float all = 0;
  for (const float s : sums) all += s;
  Global<float>(p.y)[index] = all;
}

}  // namespace infer::cuda
#endif
