#include <algorithm>
#include <cmath>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& out = call.outputs[0];
  const int64_t n = out.desc.shape[0];
  for_each_row(call, out.desc, [&](int64_t h, int64_t r) {
    const float* x = call.inputs[0].row<float>(h, r);
    float* y = out.row<float>(h, r);
    const auto count = static_cast<float>(n);
    const float own = call.vec().sum_squares(x, n) / count;
    const float wanted = call.vec().sum_squares(call.inputs[1].row<float>(0, r), n) / count;
    const float least = std::max(own, std::get<op::MatchMagnitude>(call.params).floor);
    call.vec().scale_mul(y, x, nullptr, std::sqrt(wanted / least), n);
  });
}

}  // namespace

const CpuOp& match_magnitude_cpu() {
  static const CpuOp op{OpId::MatchMagnitude, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
