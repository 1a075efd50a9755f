#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("glu", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape("glu",
                            in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::f32 &&
                                in[0]->desc.same_shape(in[1]->desc),
                            "gate, up f32 of one shape", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

double glu(const op::Glu& p, double gate, double up) {
  switch (p.kind) {
    case op::Glu::Kind::silu: return gate / (1 + std::exp(-gate)) * up;
    case op::Glu::Kind::gelu_tanh: {
      const double inner = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
      return 0.5 * gate * (1 + std::tanh(inner)) * up;
    }
    case op::Glu::Kind::gelu: return gate * 0.5 * std::erfc(-gate / std::numbers::sqrt2) * up;
    case op::Glu::Kind::swiglu_oai: {
      const double limit = p.limit;
      const double g = std::min(gate, limit);
      const double u = std::clamp(up, -limit, limit);
      return g / (1 + std::exp(-g * p.alpha)) * (u + 1);
    }
    case op::Glu::Kind::sigmoid: return up / (1 + std::exp(-gate));
    case op::Glu::Kind::relu: return std::max(gate, 0.0) * up;
    case op::Glu::Kind::bilinear: return gate * up;
    case op::Glu::Kind::softplus:
      return (std::max(gate, 0.0) + std::log1p(std::exp(-std::abs(gate)))) * up;
  }
  return 0;
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::Glu>(call.params);
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* gate = call.inputs[0].row<float>(h, r);
      const float* up = call.inputs[1].row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        out.row<float>(h, r)[i] = static_cast<float>(glu(p, gate[i], up[i]));
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  using Kind = op::Glu::Kind;
  for (const auto& [kind, name] : {std::pair{Kind::silu, "silu"},
                                   {Kind::gelu_tanh, "gelu_tanh"},
                                   {Kind::swiglu_oai, "swiglu_oai"},
                                   {Kind::sigmoid, "sigmoid"},
                                   {Kind::relu, "relu"},
                                   {Kind::bilinear, "bilinear"},
                                   {Kind::gelu, "gelu"},
                                   {Kind::softplus, "softplus"}}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = std::string(name) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [kind = kind](CaseBuilder& b) {
        const ValueId both = b.activations(2 * 83, 1, 4.0f);
        b.graph().output(b.graph().add(
            op::Glu{kind}, {b.graph().slice(both, 0, 83), b.graph().slice(both, 83, 83)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& glu_op() {
  static const OpDef def{OpId::Glu, "glu", infer, reference, cases};
  return def;
}

}  // namespace infer
