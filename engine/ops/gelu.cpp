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

double gelu(op::Gelu::Kind kind, double x) {
  switch (kind) {
    case op::Gelu::Kind::tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case op::Gelu::Kind::sigmoid: return x / (1 + std::exp(-1.702 * x));
    default: return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
  }
}

void reference(const RefCall& call) {
  const auto kind = std::get<op::Gelu>(call.params).kind;
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        out.row<float>(h, r)[i] = static_cast<float>(gelu(kind, x[i]));
      }
    }
  }
}

void add_cases(std::vector<OpCase>& all, op::Gelu::Kind kind, const std::string& name) {
  // Values near 0, and far into both tails.
  for (const float spread : {0.01f, 1.0f, 6.0f}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = name + "spread " + std::to_string(spread) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [spread, kind](CaseBuilder& b) {
        const ValueId x = b.graph().split_heads(b.activations(3 * 83, 1, spread), 3);
        b.graph().output(b.graph().add(op::Gelu{kind}, {x}));
      };
      all.push_back(std::move(c));
    }
  }
}

void cases(std::vector<OpCase>& all) {
  add_cases(all, op::Gelu::Kind::exact, "");
  add_cases(all, op::Gelu::Kind::tanh, "tanh ");
  add_cases(all, op::Gelu::Kind::sigmoid, "sigmoid ");
}

}  // namespace

const OpDef& gelu_op() {
  static const OpDef def{OpId::Gelu, "gelu", infer, reference, cases};
  return def;
}

}  // namespace infer
