#include <algorithm>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("concat", in, 2, {0, 1}));
  const TensorDesc& a = in[0]->desc;
  const TensorDesc& b = in[1]->desc;
  const int64_t heads = std::max(a.shape[1], b.shape[1]);
  const auto fits = [&](const TensorDesc& x) {
    return x.type == DType::f32 && (x.shape[1] == heads || x.shape[1] == 1);
  };
  INFER_CHECK_R(check_shape(
      "concat", fits(a) && fits(b) && a.shape[2] == b.shape[2] && in[0]->rows == in[1]->rows,
      "a f32 [d0a, heads or 1, rows], b f32 [d0b, heads or 1, rows]", in));
  return std::vector{made(DType::f32, a.shape[0] + b.shape[0], heads, *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      float* to = out.row<float>(h, r);
      for (const TensorRef& x : call.inputs) {
        to = std::copy_n(x.row<float>(x.desc.shape[1] == 1 ? 0 : h, r), x.desc.shape[0], to);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const auto& [a_heads, b_heads] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 3}, {5, 1}, {1, 4}}) {
      OpCase c;
      c.name = std::to_string(a_heads) + " and " + std::to_string(b_heads) + " heads, rows " +
               std::to_string(rows);
      c.rows = rows;
      c.tolerance = 0;
      c.build = [a_heads = a_heads, b_heads = b_heads](CaseBuilder& b) {
        const ValueId x = b.graph().slice(b.activations(29, a_heads), 3, 17);
        b.graph().output(b.graph().add(op::Concat{}, {x, b.activations(6, b_heads)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& concat_op() {
  static const OpDef def{OpId::Concat, "concat", infer, reference, cases};
  return def;
}

}  // namespace infer
