#include "backends/cuda/ops/select_columns.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(select_columns, SelectColumnsParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const int32_t from = Global<const int32_t>(p.indices)[e.d0];
  const bool inside = from >= 0 && from < p.width;
  const Global<const float> x(p.x);
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] =
      inside ? x[place(p.x_strides, e.d1, e.row) + static_cast<uint32_t>(from)]
             : float_of(0x7fc00000u);
}

}  // namespace infer::cuda
