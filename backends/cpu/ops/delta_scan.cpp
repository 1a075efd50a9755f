#include "backends/cpu/scan.h"

namespace infer::cpu {
namespace {

int64_t scratch(const NodeView& node, const CpuContext& context) {
  return scan_scratch(node.input(2)->desc.shape[2], context.threads());
}

void run(const CpuCall& call) {
  const auto& p = std::get<op::DeltaScan>(call.params);
  const TensorRef& q = call.inputs[0];
  const TensorRef& k = call.inputs[1];
  const TensorRef& v = call.inputs[2];
  const int64_t n = q.desc.shape[0];
  const int64_t heads = v.desc.shape[1];
  const int64_t key_heads = q.desc.shape[1];
  const auto from = [&](int64_t h) { return p.tiled ? h % key_heads : h / (heads / key_heads); };
  const float* a = call.inputs[5].row<float>(0, 0);
  const float* bias = call.inputs[6].row<float>(0, 0);
  const auto gate = [&](int64_t h, int64_t r) {
    const float step = softplus(of_head(call.inputs[3], h, r) + bias[h]);
    const float write = of_head(call.inputs[4], h, r);
    const float* query = q.row<float>(from(h), r);
    float met = 0;
    call.vec().dot_rows(DType::f32, k.row<float>(from(h), r), 0, 1, n, &query, 1, &met, 1);
    return ScanGate{static_cast<float>(portable::exp(a[h] * step)),
                    static_cast<float>(portable::sigmoid(write)), met * p.k_scale * p.q_scale};
  };
  const auto token = [&](int64_t h, int64_t r) {
    ScanToken t{};
    t.write = k.row<float>(from(h), r);
    t.read = q.row<float>(from(h), r);
    t.v = v.row<float>(h, r);
    t.out = call.outputs[0].row<float>(h, r);
    t.write_scale = p.k_scale;
    t.read_scale = p.q_scale;
    t.corrects = true;
    return t;
  };
  Scan(call, p.kv_layer, p.at).run(heads, n, v.desc.shape[0], gate, token);
}

}  // namespace

const CpuOp& delta_scan_cpu() {
  static const CpuOp op{OpId::DeltaScan, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
