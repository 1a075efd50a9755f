#include "backends/cuda/ops/gelu.h"

#include "backends/cuda/device/activation.h"
#include "backends/cuda/device/curves.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(gelu, GeluParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const float x = Global<const float>(p.x)[place(p.x_strides, e.d1, e.row) + e.d0];
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] = p.kind == kGeluExact ? gelu_of(x)
                                                           : p.kind == kGeluTanh
                                                               ? activated(kGeluTanh, 0, 0, x, 1)
                                                               : x * sigmoid_of(1.702f * x);
}

}  // namespace infer::cuda
