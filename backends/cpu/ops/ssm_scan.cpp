#include <numbers>

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
  const bool sloped = p.slope > 0;
  const auto given = [&](size_t i) { return sloped ? nullptr : call.inputs[i].row<float>(0, 0); };
  const float* a = given(4);
  const float* bias = given(5);
  const float* d = given(6);
  const auto gate = [&](int64_t h, int64_t r) {
    const float step = sloped ? 1.0f : softplus(call.inputs[3].row<float>(0, r)[h] + bias[h]);
    const double place = static_cast<double>(h + 1) / static_cast<double>(heads);
    const double rate = sloped ? -p.slope * portable::exp(-8 * std::numbers::ln2 * place)
                               : static_cast<double>(a[h] * step);
    const float* read = c.row<float>(h / shared, r);
    float met = 0;
    call.vec().dot_rows(DType::f32, b.row<float>(h / shared, r), 0, 1, n, &read, 1, &met, 1);
    return ScanGate{static_cast<float>(portable::exp(rate)), step, met};
  };
  const auto token = [&](int64_t h, int64_t r) {
    ScanToken t{};
    t.write = b.row<float>(h / shared, r);
    t.read = c.row<float>(h / shared, r);
    t.v = x.row<float>(h, r);
    t.out = call.outputs[0].row<float>(h, r);
    t.write_scale = 1.0f;
    t.read_scale = 1.0f;
    t.pass = sloped ? 0.0f : d[h];
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
