#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const float factor = std::get<op::Scale>(call.params).factor;
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t r, int64_t begin, int64_t end) {
    call.vec().scale_mul(out.row<float>(h, r) + begin, call.inputs[0].row<float>(h, r) + begin,
                         nullptr, factor, end - begin);
  });
}

}  // namespace

const CpuOp& scale_cpu() {
  static const CpuOp op{OpId::Scale, Sharing::stretches, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
