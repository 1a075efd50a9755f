#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const auto& params = std::get<op::Glu>(call.params);
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t r, int64_t begin, int64_t end) {
    call.vec().glu(out.row<float>(h, r) + begin, call.inputs[0].row<float>(h, r) + begin,
                   call.inputs[1].row<float>(h, r) + begin, params, end - begin);
  });
}

}  // namespace

const CpuOp& glu_cpu() {
  static const CpuOp op{OpId::Glu, Sharing::stretches, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
