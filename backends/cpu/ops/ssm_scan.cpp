#include "backends/cpu/scan.h"

namespace infer::cpu {
namespace {

int64_t scratch(const NodeView& node, const CpuContext& context) {
  return scan_scratch(node.input(0)->desc.shape[2], context.threads());
}

void run(const CpuCall& call) {
  const auto& p = std::get<op::SsmScan>(call.params);
  const TensorRef& x = call.inputs[0];
  const TensorRef& b = call.inputs[1];
  const TensorRef& c = call.inputs[2];
  const int64_t n = b.desc.shape[0];
  const int64_t heads = x.desc.shape[1];
  const int64_t shared = heads / b.desc.shape[1];
  const float* a = call.inputs[4].row<float>(0, 0);
  const float* bias = call.inputs[5].row<float>(0, 0);
  const float* d = call.inputs[6].row<float>(0, 0);
  const auto gate = [&](int64_t h, int64_t r) {
    const float step = softplus(call.inputs[3].row<float>(0, r)[h] + bias[h]);
    const float* read = c.row<float>(h / shared, r);
    float met = 0;
    call.vec().dot_rows(DType::f32, b.row<float>(h / shared, r), 0, 1, n, &read, 1, &met, 1);
    return ScanGate{static_cast<float>(portable::exp(a[h] * step)), step, met};
  };
  const auto token = [&](int64_t h, int64_t r) {
    ScanToken t{};
    t.write = b.row<float>(h / shared, r);
    t.read = c.row<float>(h / shared, r);
    t.v = x.row<float>(h, r);
    t.out = call.outputs[0].row<float>(h, r);
    t.write_scale = 1.0f;
    t.read_scale = 1.0f;
    t.pass = d[h];
    return t;
  };
  Scan(call, p.kv_layer, p.at).run(heads, n, x.desc.shape[0], gate, token);
}

}  // namespace

const CpuOp& ssm_scan_cpu() {
  static const CpuOp op{OpId::SsmScan, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
