#include <cmath>

#include "backends/cpu/parallel.h"
#include "backends/cpu/sum.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& weight = call.inputs[1];
  const TensorRef& bias = call.inputs[2];
  const TensorRef& out = call.outputs[0];
  const float eps = std::get<op::LayerNorm>(call.params).eps;
  const int64_t n = x.desc.shape[0];
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* in = x.row<float>(h, r);
    const float* w =
        weight.data == nullptr ? nullptr : weight.row<float>(weight.desc.shape[1] == 1 ? 0 : h, 0);
    float* y = out.row<float>(h, r);
    const float mean = sum_of(in, n) / static_cast<float>(n);
    for (int64_t i = 0; i < n; ++i) y[i] = in[i] - mean;
    const float variance = call.vec().sum_squares(y, n) / static_cast<float>(n);
    call.vec().scale_mul(y, y, w, 1.0f / std::sqrt(variance + eps), n);
    if (bias.data != nullptr) call.vec().add_scaled(y, y, bias.row<float>(0, 0), 1.0f, n);
  });
}

}  // namespace

const CpuOp& layer_norm_cpu() {
  static const CpuOp op{OpId::LayerNorm, Sharing::rows, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
