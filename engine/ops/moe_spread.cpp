#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("moe_spread", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape(
      "moe_spread",
      in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::f32 && in[0]->desc.shape[1] == 1,
      "x f32 [n, 1, rows], weights f32 [used, 1, rows]", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[1]->desc.shape[0], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    const float* x = call.inputs[0].row<float>(0, r);
    const float* weights = call.inputs[1].row<float>(0, r);
    for (int64_t e = 0; e < out.desc.shape[1]; ++e) {
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        out.row<float>(e, r)[i] = static_cast<float>(static_cast<double>(weights[e]) * x[i]);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t used : {1, 3}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = "used " + std::to_string(used) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [used](CaseBuilder& b) {
        const ValueId x = b.graph().slice(b.activations(80), 3, 71);
        b.graph().output(b.graph().add(op::MoeSpread{}, {x, b.activations(used)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& moe_spread_op() {
  static const OpDef def{OpId::MoeSpread, "moe_spread", infer, reference, cases};
  return def;
}

}  // namespace infer
