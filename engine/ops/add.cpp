#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("add", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape("add",
                            in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::f32 &&
                                in[0]->desc.same_shape(in[1]->desc),
                            "a, b f32 of one shape", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const float scale = std::get<op::Add>(call.params).scale;
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* a = call.inputs[0].row<float>(h, r);
      const float* b = call.inputs[1].row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) out.row<float>(h, r)[i] = a[i] + scale * b[i];
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const float scale : {1.0f, 0.22f}) {
      OpCase c;
      c.name = "rows " + std::to_string(rows) + (scale == 1.0f ? "" : " scaled");
      c.rows = rows;
      c.build = [scale](CaseBuilder& b) {
        const ValueId x = b.graph().slice(b.activations(81), 2, 77);
        b.graph().output(b.graph().add(op::Add{scale}, {x, b.activations(77)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& add_op() {
  static const OpDef def{OpId::Add, "add", infer, reference, cases};
  return def;
}

}  // namespace infer
