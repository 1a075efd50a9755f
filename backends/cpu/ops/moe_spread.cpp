#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& out = call.outputs[0];
  for_each_row(call, out.desc, [&](int64_t e, int64_t r) {
    call.vec().scale_mul(out.row<float>(e, r), call.inputs[0].row<float>(0, r), nullptr,
                         call.inputs[1].row<float>(0, r)[e], out.desc.shape[0]);
  });
}

}  // namespace

// Shared by rows. But x has fewer heads and was shared in other rows, hence `whole`.
const CpuOp& moe_spread_cpu() {
  static const CpuOp op{OpId::MoeSpread, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
