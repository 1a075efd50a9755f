#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& out = call.outputs[0];
  const int64_t n = out.desc.shape[0];
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* x = call.inputs[0].row<float>(h, r);
    float* y = out.row<float>(h, r);
    call.vec().scale_mul(y, x, call.inputs[1].row<float>(0, 0), 1.0f, n);
  });
}

}  // namespace

const CpuOp& multiply_cpu() {
  static const CpuOp op{OpId::Multiply, Sharing::rows, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
