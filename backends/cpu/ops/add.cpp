#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const float scale = std::get<op::Add>(call.params).scale;
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t r, int64_t begin, int64_t end) {
    call.vec().add_scaled(out.row<float>(h, r) + begin, call.inputs[0].row<float>(h, r) + begin,
                          call.inputs[1].row<float>(h, r) + begin, scale, end - begin);
  });
}

}  // namespace

const CpuOp& add_cpu() {
  static const CpuOp op{OpId::Add, Sharing::stretches, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
