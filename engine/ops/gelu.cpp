#include <cmath>
#include <numbers>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("gelu", in, 1, {0}));
  INFER_CHECK_R(check_shape("gelu", in[0]->desc.type == DType::f32, "x f32", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        const double value = x[i];
        out.row<float>(h, r)[i] =
            static_cast<float>(value * 0.5 * std::erfc(-value / std::numbers::sqrt2));
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  // Values near 0, and far into both tails.
  for (const float spread : {0.01f, 1.0f, 6.0f}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = "spread " + std::to_string(spread) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [spread](CaseBuilder& b) {
        const ValueId x = b.graph().split_heads(b.activations(3 * 83, 1, spread), 3);
        b.graph().output(b.graph().add(op::Gelu{}, {x}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& gelu_op() {
  static const OpDef def{OpId::Gelu, "gelu", infer, reference, cases};
  return def;
}

}  // namespace infer
