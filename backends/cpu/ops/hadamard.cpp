#include <cmath>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const int64_t block = std::get<op::Hadamard>(call.params).block;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(block)));
  const TensorRef& out = call.outputs[0];
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* x = call.inputs[0].row<float>(h, r);
    float* y = out.row<float>(h, r);
    for (int64_t begin = 0; begin < out.desc.shape[0]; begin += block) {
      call.vec().attention->hadamard(y + begin, x + begin, scale, block);
    }
  });
}

}  // namespace

const CpuOp& hadamard_cpu() {
  static const CpuOp op{OpId::Hadamard, Sharing::rows, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
