#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("rope", in, 2, {0, 1}));
  const TensorDesc& x = in[0]->desc;
  const TensorDesc& table = in[1]->desc;
  INFER_CHECK_R(check_shape("rope",
                            x.type == DType::f32 && table.type == DType::f32 &&
                                table.shape[0] == 2 && 2 * table.shape[1] <= x.shape[0] &&
                                table.shape[2] == x.shape[2],
                            "x f32 [head, heads, rows], table f32 [2, pairs, rows]", in));
  return std::vector{made(DType::f32, x.shape[0], x.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& table = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const bool interleaved = std::get<op::Rope>(call.params).style == op::Rope::Style::interleaved;
  const int64_t pairs = table.desc.shape[1];
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < x.desc.shape[1]; ++h) {
      const float* in = x.row<float>(h, r);
      float* y = out.row<float>(h, r);
      for (int64_t p = 0; p < pairs; ++p) {
        const double cos = table.row<float>(p, r)[0];
        const double sin = table.row<float>(p, r)[1];
        const int64_t i = interleaved ? 2 * p : p;
        const int64_t j = interleaved ? 2 * p + 1 : p + pairs;
        const double a = in[i];
        const double b = in[j];
        y[i] = static_cast<float>(a * cos - b * sin);
        y[j] = static_cast<float>(a * sin + b * cos);
      }
      for (int64_t i = 2 * pairs; i < x.desc.shape[0]; ++i) y[i] = in[i];
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const auto style : {op::Rope::Style::interleaved, op::Rope::Style::half_split}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      for (const int64_t pairs : {1, 5, 32}) {
        OpCase c;
        c.name = std::string(style == op::Rope::Style::interleaved ? "interleaved" : "half-split") +
                 " pairs " + std::to_string(pairs) + " rows " + std::to_string(rows);
        c.rows = rows;
        c.build = [style, pairs](CaseBuilder& b) {
          const ValueId whole = b.activations(3 * 67 + 4);
          const ValueId x = b.graph().split_heads(b.graph().slice(whole, 4, 3 * 67), 3);
          const ValueId table = b.activations(2, pairs);
          b.graph().output(b.graph().add(op::Rope{style}, {x, table}));
        };
        all.push_back(std::move(c));
      }
    }
  }
}

}  // namespace

const OpDef& rope_op() {
  static const OpDef def{OpId::Rope, "rope", infer, reference, cases};
  return def;
}

}  // namespace infer
