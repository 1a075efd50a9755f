#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("multiply", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape("multiply",
                            in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::f32 &&
                                in[1]->desc.shape[0] == in[0]->desc.shape[0],
                            "x f32 [d0, d1, rows], weight f32 [d0]", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& out = call.outputs[0];
  const int64_t n = out.desc.shape[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      float* y = out.row<float>(h, r);
      const float* weight = call.inputs[1].row<float>(0, 0);
      for (int64_t i = 0; i < n; ++i) {
        y[i] = static_cast<float>(static_cast<double>(x[i]) * weight[i]);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const int64_t d0 : {5, 64, 131}) {
      OpCase c;
      c.name = "d0 " + std::to_string(d0) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [d0](CaseBuilder& b) {
        const ValueId x = b.graph().split_heads(b.activations(3 * d0, 1, 2.0f), 3);
        b.graph().output(b.graph().add(op::Multiply{}, {x, b.weight(DType::f32, d0)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& multiply_op() {
  static const OpDef def{OpId::Multiply, "multiply", infer, reference, cases};
  return def;
}

}  // namespace infer
