#include <cmath>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& out = call.outputs[0];
  const auto* indices = call.inputs[1].row<int32_t>(0, 0);
  const auto width = static_cast<uint64_t>(call.inputs[0].desc.shape[0]);
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* x = call.inputs[0].row<float>(h, r);
    float* y = out.row<float>(h, r);
    for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
      const auto from = static_cast<uint64_t>(int64_t{indices[i]});
      y[i] = from < width ? x[from] : NAN;
    }
  });
}

}  // namespace

const CpuOp& select_columns_cpu() {
  static const CpuOp op{OpId::SelectColumns, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
