#include <numbers>

#include "backends/cpu/scan.h"

namespace infer::cpu {
namespace {

/// Bytes for what a thread's columns decay with.
int64_t elements_scratch(int64_t n) { return n * kScanColumns * int64_t{sizeof(float)}; }

int64_t scratch(const NodeView& node, const CpuContext& context) {
  if (std::get<op::SsmScan>(node.node.params).by_element) {
    return context.threads() * elements_scratch(node.input(1)->desc.shape[0]);
  }
  return scan_scratch(node.input(0)->desc.shape[2], context.threads());
}

void run_by_element(const CpuCall& call) {
  const auto& p = std::get<op::SsmScan>(call.params);
  const TensorRef& x = call.inputs[0];
  const TensorRef& b = call.inputs[1];
  const int64_t n = b.desc.shape[0];
  const int64_t heads = x.desc.shape[1];
  const int64_t shared = heads / b.desc.shape[1];
  const int64_t width = x.desc.shape[0];
  auto* const a =
      reinterpret_cast<float*>(call.scratch + call.thread * elements_scratch(n));  // turned
  const auto start = [&](const ScanBlock& block) {
    std::fill_n(a, n * kScanColumns, 0.0f);
    for (int64_t e = 0; e < block.count; ++e) {
      const float* of_column = call.inputs[4].row<float>(block.head * width + block.first + e, 0);
      for (int64_t i = 0; i < n; ++i) a[i * kScanColumns + e] = of_column[i];
    }
  };
  const auto token = [&](const ScanBlock& block, int64_t r) {
    ScanElements t{};
    t.a = a;
    t.write = b.row<float>(block.head / shared, r);
    t.read = call.inputs[2].row<float>(block.head / shared, r);
    t.step = call.inputs[3].row<float>(block.head, r) + block.first;
    t.x = x.row<float>(block.head, r) + block.first;
    t.d = call.inputs[6].row<float>(0, 0) + block.head * width + block.first;
    t.out = call.outputs[0].row<float>(block.head, r) + block.first;
    return t;
  };
  Scan(call, p.kv_layer, p.at).run_by_element(heads, n, width, start, token);
}

void run(const CpuCall& call) {
  const auto& p = std::get<op::SsmScan>(call.params);
  if (p.by_element) return run_by_element(call);
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
