#include "backends/cuda/ops/scale.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(scale, ScaleParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const float x = Global<const float>(p.x)[place(p.x_strides, e.d1, e.row) + e.d0];
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] =
      least_of(most_of(p.factor * x, p.least), p.most);
}

}  // namespace infer::cuda
