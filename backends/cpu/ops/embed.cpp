#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  const TensorRef& tokens = call.inputs[0];
  const TensorRef& table = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const float scale = std::get<op::Embed>(call.params).scale;
  for_each_row(call, out.desc, [&](int64_t, int64_t r) {
    float* y = out.row<float>(0, r);
    decode_row(call.vec(), table.desc.type, table.row<std::byte>(*tokens.row<int32_t>(0, r), 0), y,
               out.desc.shape[0]);
    if (scale != 1.0f) call.vec().scale_mul(y, y, nullptr, scale, out.desc.shape[0]);
  });
}

}  // namespace

const CpuOp& embed_cpu() {
  static const CpuOp op{OpId::Embed, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
