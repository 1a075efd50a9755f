#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& out = call.outputs[0];
  const int64_t n = out.desc.shape[1];
  const VecOps& vec = call.vec();
  for_each_stretch(call, out.desc, [&](int64_t to, int64_t r, int64_t begin, int64_t end) {
    const float* mix = call.inputs[1].row<float>(0, r);
    const float* h = call.inputs[2].row<float>(0, r) + begin;
    float* y = out.row<float>(to, r) + begin;
    vec.scale_mul(y, h, nullptr, call.inputs[3].row<float>(0, r)[to], end - begin);
    for (int64_t from = 0; from < n; ++from) {
      vec.axpy(y, mix[from * n + to], call.inputs[0].row<float>(from, r) + begin, end - begin);
    }
  });
}

}  // namespace

// Streams read all others, hence `whole`.
const CpuOp& mix_streams_cpu() {
  static const CpuOp op{OpId::MixStreams, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
