// How fast products of four signed bytes are summed: kIntRateChains of them in each thread do not
// depend on each other.
#include "backends/cuda/int_rate.h"

extern "C" __global__ void int_rate(const __grid_constant__ infer::cuda::IntRateParams p) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int sums[infer::cuda::kIntRateChains];
  for (int c = 0; c < infer::cuda::kIntRateChains; ++c) sums[c] = index + c;
  for (uint32_t r = 0; r < p.rounds; ++r) {
    for (int& sum : sums) sum = __dp4a(sum, index, sum);
  }
  int all = 0;
  for (const int sum : sums) all ^= sum;
  reinterpret_cast<int*>(p.y)[index] = all;
}
