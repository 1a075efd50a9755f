#include "backends/cuda/ops/moe_combine.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(moe_combine, MoeCombineParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const Global<const float> x(p.x);
  const Global<const float> weights(p.weights);
  float sum = 0;
  for (uint32_t u = 0; u < p.used; ++u) {
    sum = fused(weights[place(p.weight_strides, 0, e.row) + u],
                x[place(p.x_strides, u, e.row) + e.d0], sum);
  }
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] = sum;
}

}  // namespace infer::cuda
