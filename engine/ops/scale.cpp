#include <algorithm>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("scale", in, 1, {0}));
  INFER_CHECK_R(check_shape("scale", in[0]->desc.type == DType::f32, "x f32", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::Scale>(call.params);
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      float* y = out.row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        y[i] = std::clamp(p.factor * x[i], p.least, p.most);
      }
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
      b.graph().output(b.graph().add(op::Scale{0.37f}, {x}));
    };
    all.push_back(c);
    c.name = "within bounds, " + c.name;
    c.build = [](CaseBuilder& b) {
      const ValueId x = b.graph().split_heads(b.activations(3 * 37, 1, 8.0f), 3);
      b.graph().output(b.graph().add(op::Scale{0.37f, -1.5f, 2.25f}, {x}));
    };
    all.push_back(std::move(c));
  }
}

}  // namespace

const OpDef& scale_op() {
  static const OpDef def{OpId::Scale, "scale", infer, reference, cases};
  return def;
}

}  // namespace infer
