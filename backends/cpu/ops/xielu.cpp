#include <algorithm>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const auto& p = std::get<op::Xielu>(call.params);
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t r, int64_t begin, int64_t end) {
    const float* in = call.inputs[0].row<float>(h, r);
    float* y = out.row<float>(h, r);
    for (int64_t i = begin; i < end; ++i) y[i] = std::min(in[i], p.eps);
    call.vec().exp_sum(y + begin, 0.0f, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      const float x = in[i];
      const float curve = x > 0 ? p.positive * x * x : p.negative * (y[i] - 1.0f - x);
      y[i] = curve + p.beta * x;
    }
  });
}

}  // namespace

const CpuOp& xielu_cpu() {
  static const CpuOp op{OpId::Xielu, Sharing::stretches, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
