#include <cmath>

#include "backends/cpu/parallel.h"
#include "backends/cpu/sum.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& out = call.outputs[0];
  const int64_t n = out.desc.shape[0];
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* x = call.inputs[0].row<float>(h, r);
    float* y = out.row<float>(h, r);
    const float mean = sum_of(x, n) / static_cast<float>(n);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - mean;
    const float deviation = std::sqrt(call.vec().sum_squares(y, n) / static_cast<float>(n));
    const float least = std::get<op::Outstanding>(call.params).factor * deviation;
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] < least ? 0.0f : y[i] - least;
  });
}

}  // namespace

const CpuOp& outstanding_cpu() {
  static const CpuOp op{OpId::Outstanding, Sharing::rows, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
