#include <algorithm>
#include <cmath>

#include "engine/ops/op.h"
#include "engine/ops/reference.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("memory_gate", in, 2, {0, 1}));
  const TensorDesc& q = in[0]->desc;
  const TensorDesc& k = in[1]->desc;
  INFER_CHECK_R(check_shape("memory_gate",
                            q.type == DType::f32 && k.type == DType::f32 && q.shape == k.shape,
                            "q, k f32 [d0, d1, rows]", in));
  return std::vector{made(DType::f32, q.shape[1], 1, *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& q = call.inputs[0];
  const double scale = std::get<op::MemoryGate>(call.params).scale;
  for (int64_t r = 0; r < q.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < q.desc.shape[1]; ++h) {
      const double met =
          scale * dot_f64(q.row<float>(h, r), call.inputs[1].row<float>(h, r), q.desc.shape[0]);
      const double root = std::sqrt(std::max(std::abs(met), 1e-6));
      const double signed_root = met > 0 ? root : met < 0 ? -root : 0.0;
      call.outputs[0].row<float>(0, r)[h] = static_cast<float>(1 / (1 + std::exp(-signed_root)));
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const auto& [width, heads] : {std::pair{1, 1}, {37, 3}, {64, 4}, {1031, 2}, {2048, 4}}) {
      OpCase c;
      c.name =
          std::to_string(heads) + " of " + std::to_string(width) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [width = width, heads = heads](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        const ValueId q =
            g.split_heads(g.slice(b.activations(width * heads + 3), 1, width * heads), heads);
        const ValueId k = b.activations(width, heads);
        const float scale = 1.0f / std::sqrt(static_cast<float>(width));
        g.output(g.add(op::MemoryGate{scale}, {q, k}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& memory_gate_op() {
  static const OpDef def{OpId::MemoryGate, "memory_gate", infer, reference, cases};
  return def;
}

}  // namespace infer
