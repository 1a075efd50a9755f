#include "backends/cuda/ops/mean_rows.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

// The sum is kept with what its roundings lost (Kahan 1965).
INFER_KERNEL(mean_rows, MeanRowsParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const auto begin = static_cast<uint32_t>(Global<const int32_t>(p.begins)[e.row]);
  const auto end = static_cast<uint32_t>(Global<const int32_t>(p.ends)[e.row]);
  const Global<const float> x(p.x);
  float sum = 0;
  float lost = 0;
  for (uint32_t r = begin; r < end; ++r) {
    const float value = x[place(p.x_strides, e.d1, r) + e.d0] - lost;
    const float next = sum + value;
    lost = (next - sum) - value;
    sum = next;
  }
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] = sum / static_cast<float>(end - begin);
}

}  // namespace infer::cuda
