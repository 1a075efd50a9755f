#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const auto kind = std::get<op::Gelu>(call.params).kind;
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t r, int64_t begin, int64_t end) {
    call.vec().gelu(out.row<float>(h, r) + begin, call.inputs[0].row<float>(h, r) + begin, kind,
                    end - begin);
  });
}

}  // namespace

const CpuOp& gelu_cpu() {
  static const CpuOp op{OpId::Gelu, Sharing::stretches, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
