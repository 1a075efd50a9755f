// How fast matrices of float16 are multiplied by tensor cores: kMatrixRateChains products of a warp
// do not depend on each other.
#include "backends/cuda/device/memory.h"
#include "backends/cuda/device/mma.h"
#include "backends/cuda/rate.h"

namespace infer::cuda {

INFER_KERNEL(matrix_rate, RateParams, kRateThreads, 1) {
  const uint32_t index = block_x() * kRateThreads + thread();
  // Small numbers that differ, not zeros: what switches takes power, and so speed.
  uint32_t a[4];
  uint32_t b[2];
  for (uint32_t i = 0; i < 4; ++i)
    a[i] = 0x30003000u ^ (index * 2654435761u >> (2 * i) & 0x03ff03ffu);
  for (uint32_t i = 0; i < 2; ++i)
    b[i] = 0xb0003000u ^ (index * 2246822519u >> (3 * i) & 0x03ff03ffu);
  float sums[kMatrixRateChains][4] = {};
  for (uint32_t r = 0; r < p.rounds; ++r) {
#pragma unroll
    for (auto& sum : sums) mma_f16(sum, a, b, sum);
  }
  float all = 0;
  for (const auto& sum : sums) {
    for (const float s : sum) all += s;
  }
  Global<float>(p.y)[index] = all;
}

}  // namespace infer::cuda
