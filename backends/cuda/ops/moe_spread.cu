#include "backends/cuda/ops/moe_spread.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(moe_spread, MoeSpreadParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const float x = Global<const float>(p.x)[place(p.x_strides, 0, e.row) + e.d0];
  const float weight = Global<const float>(p.weights)[place(p.weight_strides, 0, e.row) + e.d1];
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] = weight * x;
}

}  // namespace infer::cuda
