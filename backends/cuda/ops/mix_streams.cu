#include "backends/cuda/ops/mix_streams.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(mix_streams, MixStreamsParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const Global<const float> x(p.x);
  const Global<const float> mix(p.mix + uint64_t{e.row} * p.mix_stride * 4);
  const float h = Global<const float>(p.h)[uint64_t{e.row} * p.h_stride + e.d0];
  float sum = Global<const float>(p.shares)[uint64_t{e.row} * p.shares_stride + e.d1] * h;
  for (uint32_t from = 0; from < p.shape.d1; ++from) {
    sum = fused(mix[from * p.shape.d1 + e.d1], x[place(p.x_strides, from, e.row) + e.d0], sum);
  }
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] = sum;
}

}  // namespace infer::cuda
