#include <algorithm>
#include <cmath>

#include "backends/cpu/parallel.h"
#include "engine/core/portable_math.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& q = call.inputs[0];
  const TensorRef& k = call.inputs[1];
  const float scale = std::get<op::MemoryGate>(call.params).scale;
  const int64_t width = q.desc.shape[0];
  for_each_row(call, q.desc, [&](int64_t h, int64_t r) {
    const float* queries[] = {q.row<float>(h, r)};
    float met = 0;
    call.vec().dot_rows(DType::f32, k.row<float>(h, r), width, 1, width, queries, 1, &met, 1);
    met *= scale;
    const double root = std::sqrt(std::max(std::abs(static_cast<double>(met)), 1e-6));
    const double signed_root = met > 0 ? root : met < 0 ? -root : 0.0;
    call.outputs[0].row<float>(0, r)[h] = static_cast<float>(portable::sigmoid(signed_root));
  });
}

}  // namespace

const CpuOp& memory_gate_cpu() {
  static const CpuOp op{OpId::MemoryGate, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
