#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("mean_rows", in, 3, {0, 1, 2}));
  INFER_CHECK_R(check_shape("mean_rows",
                            in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::i32 &&
                                in[2]->desc.type == DType::i32,
                            "x f32 [d0, d1, rows], begins and ends i32 [1, 1, outputs]", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[1])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& out = call.outputs[0];
  for (int64_t i = 0; i < out.desc.shape[2]; ++i) {
    const int32_t begin = *call.inputs[1].row<int32_t>(0, i);
    const int32_t end = *call.inputs[2].row<int32_t>(0, i);
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      for (int64_t e = 0; e < out.desc.shape[0]; ++e) {
        double sum = 0;
        for (int32_t r = begin; r < end; ++r) sum += x.row<float>(h, r)[e];
        out.row<float>(h, i)[e] = static_cast<float>(sum / (end - begin));
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const auto& [rows, outputs] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {33, 5}}) {
    OpCase c;
    c.name = std::to_string(outputs) + " of " + std::to_string(rows);
    c.rows = rows;
    c.outputs = outputs;
    c.build = [](CaseBuilder& b) {
      GraphBuilder& g = b.graph();
      const ValueId x = b.activations(29, 2);
      g.output(g.add(op::MeanRows{},
                     {x, g.input(StepInput::output_rows), g.input(StepInput::output_ends)}));
    };
    all.push_back(std::move(c));
  }
}

}  // namespace

const OpDef& mean_rows_op() {
  static const OpDef def{OpId::MeanRows, "mean_rows", infer, reference, cases};
  return def;
}

}  // namespace infer
