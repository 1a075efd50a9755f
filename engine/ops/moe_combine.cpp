#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("moe_combine", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape("moe_combine",
                            in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::f32 &&
                                in[0]->desc.shape[1] == in[1]->desc.shape[0],
                            "x f32 [n, used, rows], weights f32 [used, 1, rows]", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], 1, *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const float* weights = call.inputs[1].row<float>(0, r);
    for (int64_t i = 0; i < x.desc.shape[0]; ++i) {
      double sum = 0;
      for (int64_t e = 0; e < x.desc.shape[1]; ++e) {
        sum += static_cast<double>(weights[e]) * x.row<float>(e, r)[i];
      }
      out.row<float>(0, r)[i] = static_cast<float>(sum);
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t used : {1, 2, 5}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = "used " + std::to_string(used) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [used](CaseBuilder& b) {
        const ValueId x = b.activations(71, used);
        b.graph().output(b.graph().add(op::MoeCombine{}, {x, b.activations(used)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& moe_combine_op() {
  static const OpDef def{OpId::MoeCombine, "moe_combine", infer, reference, cases};
  return def;
}

}  // namespace infer
