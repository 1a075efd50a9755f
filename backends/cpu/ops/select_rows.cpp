#include <algorithm>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& out = call.outputs[0];
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const int32_t from = *call.inputs[1].row<int32_t>(0, r);
    std::copy_n(x.row<float>(h, from), x.desc.shape[0], out.row<float>(h, r));
  });
}

}  // namespace

const CpuOp& select_rows_cpu() {
  static const CpuOp op{OpId::SelectRows, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
