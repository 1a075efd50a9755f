#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t, int64_t r, int64_t begin, int64_t end) {
    const float* weights = call.inputs[1].row<float>(0, r);
    float* y = out.row<float>(0, r) + begin;
    call.vec().scale_mul(y, x.row<float>(0, r) + begin, nullptr, weights[0], end - begin);
    for (int64_t e = 1; e < x.desc.shape[1]; ++e) {
      call.vec().axpy(y, weights[e], x.row<float>(e, r) + begin, end - begin);
    }
  });
}

}  // namespace

// Shared by stretches. But x has more heads and was shared in other stretches, hence `whole`.
const CpuOp& moe_combine_cpu() {
  static const CpuOp op{OpId::MoeCombine, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
