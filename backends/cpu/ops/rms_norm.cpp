#include <cmath>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& weight = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const float eps = std::get<op::RmsNorm>(call.params).eps;
  const int64_t n = x.desc.shape[0];
  const float* w = weight.data == nullptr ? nullptr : weight.row<float>(0, 0);
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* in = x.row<float>(h, r);
    const float mean = call.vec().sum_squares(in, n) / static_cast<float>(n);
    call.vec().scale_mul(out.row<float>(h, r), in, w, 1.0f / std::sqrt(mean + eps), n);
  });
}

}  // namespace

const CpuOp& rms_norm_cpu() {
  static const CpuOp op{OpId::RmsNorm, Sharing::rows, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
