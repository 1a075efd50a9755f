// How fast products of four signed bytes are summed: kIntRateChains of them in each thread do not
// depend on each other.
#include "backends/cuda/rate.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/memory.h"

namespace infer::cuda {

INFER_KERNEL(int_rate, RateParams, kRateThreads, 1) {
  const uint32_t index = block_x() * kRateThreads + thread();
  int32_t sums[kIntRateChains];
  for (int c = 0; c < kIntRateChains; ++c) sums[c] = static_cast<int32_t>(index) + c;
  for (uint32_t r = 0; r < p.rounds; ++r) {
    for (int32_t& sum : sums) sum = dot4(static_cast<uint32_t>(sum), index, sum);
  }
  int32_t all = 0;
  for (const int32_t sum : sums) all ^= sum;
  const Global<int32_t> results(p.y);
  results[index] = all;
}

}  // namespace infer::cuda
