#include <algorithm>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& table = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const bool interleaved = std::get<op::Rope>(call.params).style == op::Rope::Style::interleaved;
  const int64_t pairs = table.desc.shape[1];
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* in = x.row<float>(h, r);
    float* y = out.row<float>(h, r);
    call.vec().attention->rope(y, in, table.row<float>(0, r), pairs, interleaved);
    std::copy(in + 2 * pairs, in + x.desc.shape[0], y + 2 * pairs);
  });
}

}  // namespace

const CpuOp& rope_cpu() {
  static const CpuOp op{OpId::Rope, Sharing::rows, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
