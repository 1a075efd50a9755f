#include "backends/cuda/ops/select_rows.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(select_rows, SelectRowsParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const auto from = static_cast<uint32_t>(Global<const int32_t>(p.indices)[e.row]);
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] =
      Global<const float>(p.x)[place(p.x_strides, e.d1, from) + e.d0];
}

}  // namespace infer::cuda
