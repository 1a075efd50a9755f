#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("select_columns", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape(
      "select_columns",
      in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::i32 && in[1]->desc.rows() == 1,
      "x f32 [k, d1, rows], indices i32 [n]", in));
  return std::vector{made(DType::f32, in[1]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& out = call.outputs[0];
  const auto* indices = call.inputs[1].row<int32_t>(0, 0);
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        const bool inside = indices[i] >= 0 && indices[i] < x.desc.shape[0];
        out.row<float>(h, r)[i] = inside ? x.row<float>(h, r)[indices[i]] : NAN;
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    OpCase c;
    c.name = "rows " + std::to_string(rows);
    c.rows = rows;
    c.tolerance = 0;
    // Normally distributed indices, rounded: some before the first column and beyond the last.
    c.build = [](CaseBuilder& b) {
      const ValueId x = b.activations(2, 3);
      b.graph().output(b.graph().add(op::SelectColumns{}, {x, b.weight(DType::i32, 71)}));
    };
    all.push_back(std::move(c));
  }
}

}  // namespace

const OpDef& select_columns_op() {
  static const OpDef def{OpId::SelectColumns, "select_columns", infer, reference, cases};
  return def;
}

}  // namespace infer
