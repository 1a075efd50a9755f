#include "backends/cuda/ops/xielu.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(xielu, XieluParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const float x = Global<const float>(p.x)[place(p.x_strides, e.d1, e.row) + e.d0];
  const float curve =
      x > 0.0f ? p.positive * x * x : p.negative * (exp_of(least_of(x, p.eps)) - 1.0f - x);
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] = is_nan(x) ? x : curve + p.beta * x;
}

}  // namespace infer::cuda
