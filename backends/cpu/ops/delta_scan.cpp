#include "backends/cpu/scan.h"

namespace infer::cpu {
namespace {

/// Elements that a thread has for the decays of a head's rows of S.
int64_t decay_elements(const op::DeltaScan& p, const TensorDesc& q) {
  return p.by_channel ? round_up<int64_t>(q.shape[0] * q.shape[2], 16) : 0;
}

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const TensorDesc& q = node.input(0)->desc;
  return scan_scratch(q.shape[2], context.threads()) +
         context.threads() * decay_elements(std::get<op::DeltaScan>(node.node.params), q) *
             int64_t{sizeof(float)};
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
  float* const decays =
      reinterpret_cast<float*>(call.scratch + scan_scratch(q.desc.shape[2], call.threads())) +
      call.thread * decay_elements(p, q.desc);
  const auto gate = [&](int64_t h, int64_t r) {
    float decay = 1.0f;
    if (p.by_channel) {
      call.vec().recurrent->decays(call.inputs[3].row<float>(h, r), bias + h * n, a[h], p.bound,
                                   decays + r * n, n);
    } else {
      const float step = softplus(of_head(call.inputs[3], h, r) + bias[h]);
      decay = static_cast<float>(portable::exp(a[h] * step));
    }
    const float write = of_head(call.inputs[4], h, r);
    const float* query = q.row<float>(from(h), r);
    float met = 0;
    call.vec().dot_rows(DType::f32, k.row<float>(from(h), r), 0, 1, n, &query, 1, &met, 1);
    return ScanGate{decay, static_cast<float>(portable::sigmoid(write)),
                    met * p.k_scale * p.q_scale};
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
    if (p.by_channel) t.decays = decays + r * n;
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
