#include "backends/cuda/ops/glu.h"

#include "backends/cuda/device/activation.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(glu, GluParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const float gate = Global<const float>(p.gate)[place(p.gate_strides, e.d1, e.row) + e.d0];
  const float up = Global<const float>(p.up)[place(p.up_strides, e.d1, e.row) + e.d0];
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] =
      activated(p.kind, p.alpha, p.limit, gate, up);
}

}  // namespace infer::cuda
