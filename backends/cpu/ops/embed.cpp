#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// A row as it lies in the file, for each thread.
int64_t row_scratch(const TensorDesc& table) { return round_up<int64_t>(table.row_bytes(), 64); }

int64_t scratch(const NodeView& node, const CpuContext& context) {
  return row_scratch(node.input(1)->desc) * context.threads();
}

void run(const CpuCall& call) {
  const TensorRef& tokens = call.inputs[0];
  const TensorRef& table = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const float scale = std::get<op::Embed>(call.params).scale;
  std::byte* own_scratch = call.scratch + call.thread * row_scratch(table.desc);
  for_each_row(call, out.desc, [&](int64_t, int64_t r) {
    float* y = out.row<float>(0, r);
    const int32_t token = *tokens.row<int32_t>(0, r);
    if (token < 0) {
      std::fill_n(y, out.desc.shape[0], 0.0f);
      return;
    }
    read_row(call.context, table, token, 0, own_scratch, y);
    if (scale != 1.0f) call.vec().scale_mul(y, y, nullptr, scale, out.desc.shape[0]);
  });
}

}  // namespace

const CpuOp& embed_cpu() {
  static const CpuOp op{OpId::Embed, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
