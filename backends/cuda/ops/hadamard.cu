#include "backends/cuda/ops/hadamard.h"

#include "backends/cuda/device/step.h"

namespace infer::cuda {

// log2(block) rounds of sums and differences.
INFER_KERNEL(hadamard, HadamardParams, kHadamardThreads, 1) {
  const uint32_t d1 = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.shape.rows)) return;
  const uint32_t width = p.shape.d0;
  const SharedPtr<float> values = dynamic_shared<float>(0, width);
  const Global<const float> x(p.x + uint64_t{place(p.x_strides, d1, row)} * 4);
  const Global<float> y(p.y + uint64_t{place(p.shape, d1, row)} * 4);
  for (uint32_t i = thread(); i < width; i += threads()) values[i] = x[i];
  for (uint32_t stride = 1; stride < p.block; stride *= 2) {
    sync_block();
    for (uint32_t pair = thread(); pair < width / 2; pair += threads()) {
      const uint32_t i = pair / stride * 2 * stride + pair % stride;
      const float a = values[i];
      const float b = values[i + stride];
      values[i] = a + b;
      values[i + stride] = a - b;
    }
  }
  sync_block();
  for (uint32_t i = thread(); i < width; i += threads()) y[i] = values[i] * p.factor;
}

}  // namespace infer::cuda
