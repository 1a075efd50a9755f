#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const float cap = std::get<op::Softcap>(call.params).cap;
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t r, int64_t begin, int64_t end) {
    const float* x = call.inputs[0].row<float>(h, r);
    float* y = out.row<float>(h, r);
    call.vec().softcap(y + begin, x + begin, cap, end - begin);
  });
}

}  // namespace

const CpuOp& softcap_cpu() {
  static const CpuOp op{OpId::Softcap, Sharing::stretches, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
