#include <algorithm>
#include <cmath>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const auto& p = std::get<op::Scale>(call.params);
  const bool bounded = std::isfinite(p.least) || std::isfinite(p.most);
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t r, int64_t begin, int64_t end) {
    float* const y = out.row<float>(h, r) + begin;
    call.vec().scale_mul(y, call.inputs[0].row<float>(h, r) + begin, nullptr, p.factor,
                         end - begin);
    if (!bounded) return;
    for (int64_t i = 0; i < end - begin; ++i) y[i] = std::clamp(y[i], p.least, p.most);
  });
}

}  // namespace

const CpuOp& scale_cpu() {
  static const CpuOp op{OpId::Scale, Sharing::stretches, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
