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
    const float* turn = table.row<float>(0, r);  // cos, sin, cos, sin, …
    float* y = out.row<float>(h, r);
    const int64_t step = interleaved ? 2 : 1;
    const int64_t apart = interleaved ? 1 : pairs;
    for (int64_t p = 0; p < pairs; ++p) {
      const float a = in[p * step];
      const float b = in[p * step + apart];
      y[p * step] = a * turn[2 * p] - b * turn[2 * p + 1];
      y[p * step + apart] = a * turn[2 * p + 1] + b * turn[2 * p];
    }
    std::copy(in + 2 * pairs, in + x.desc.shape[0], y + 2 * pairs);
  });
}

}  // namespace

const CpuOp& rope_cpu() {
  static const CpuOp op{OpId::Rope, Sharing::rows, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
