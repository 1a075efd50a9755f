#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("softcap", in, 1, {0}));
  INFER_CHECK_R(check_shape("softcap", in[0]->desc.type == DType::f32, "x f32", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const double cap = std::get<op::Softcap>(call.params).cap;
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      float* y = out.row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i)
        y[i] = static_cast<float>(cap * std::tanh(x[i] / cap));
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    OpCase c;
    c.name = "rows " + std::to_string(rows);
    c.rows = rows;
    c.build = [](CaseBuilder& b) {
      const ValueId x = b.graph().split_heads(b.activations(3 * 37, 1, 8.0f), 3);
      b.graph().output(b.graph().add(op::Softcap{5.0f}, {x}));
    };
    all.push_back(std::move(c));
  }
}

}  // namespace

const OpDef& softcap_op() {
  static const OpDef def{OpId::Softcap, "softcap", infer, reference, cases};
  return def;
}

}  // namespace infer
