#include <cstring>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("select_rows", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape("select_rows",
                            in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::i32,
                            "x f32 [d0, d1, rows], indices i32 [1, 1, outputs]", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[1])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    const int32_t from = *call.inputs[1].row<int32_t>(0, r);
    for (int64_t h = 0; h < x.desc.shape[1]; ++h) {
      std::memcpy(out.row<float>(h, r), x.row<float>(h, from),
                  static_cast<size_t>(x.desc.shape[0]) * sizeof(float));
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const auto& [rows, outputs] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {33, 5}}) {
    OpCase c;
    c.name = std::to_string(outputs) + " of " + std::to_string(rows);
    c.rows = rows;
    c.outputs = outputs;
    c.tolerance = 0;
    c.build = [](CaseBuilder& b) {
      const ValueId x = b.activations(29, 2);
      b.graph().output(
          b.graph().add(op::SelectRows{}, {x, b.graph().input(StepInput::output_rows)}));
    };
    all.push_back(std::move(c));
  }
}

}  // namespace

const OpDef& select_rows_op() {
  static const OpDef def{OpId::SelectRows, "select_rows", infer, reference, cases};
  return def;
}

}  // namespace infer
