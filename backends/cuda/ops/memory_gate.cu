#include "backends/cuda/ops/memory_gate.h"

#include "backends/cuda/device/row_sum.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(memory_gate, MemoryGateParams, kMemoryGateThreads, 1) {
  const uint32_t d1 = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.shape.rows)) return;
  const Global<const float> q(p.q + uint64_t{place(p.q_strides, d1, row)} * 4);
  const Global<const float> k(p.k + uint64_t{place(p.k_strides, d1, row)} * 4);
  const float met =
      p.scale * row_sum(p.width, [&](float sum, int64_t i) { return fused(q[i], k[i], sum); });
  const float root = root_of(most_of(met < 0.0f ? -met : met, 1e-6f));
  const float signed_root = met > 0.0f ? root : met < 0.0f ? -root : 0.0f;
  if (thread() == 0) {
    Global<float>(p.y)[place(p.shape, 0, row) + d1] = sigmoid_of(signed_root);
  }
}

}  // namespace infer::cuda
