#include "backends/cuda/ops/rope.h"

#include "backends/cuda/device/rotation.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(rope, RopeParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] =
      roped(p.style, Global<const float>(p.x), place(p.x_strides, e.d1, e.row), e.d0, p.pairs,
            Global<const float>(p.table), p.table_strides, e.row);
}

}  // namespace infer::cuda
