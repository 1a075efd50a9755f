#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("layer_norm", in, 3, {0}));
  const TensorDesc& x = in[0]->desc;
  const auto weighs = [&](const TensorDesc& weight) {
    return weight.type == DType::f32 && weight.shape[0] == x.shape[0] &&
           (weight.shape[1] == 1 || weight.shape[1] == x.shape[1]);
  };
  const bool bias =
      in[2] == nullptr || (in[2]->desc.type == DType::f32 && in[2]->desc.shape[0] == x.shape[0]);
  INFER_CHECK_R(check_shape(
      "layer_norm", x.type == DType::f32 && bias && (in[1] == nullptr || weighs(in[1]->desc)),
      "x f32 [d0, d1, rows], weight f32 [d0] or [d0, d1], bias f32 [d0]", in));
  return std::vector{made(DType::f32, x.shape[0], x.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& weight = call.inputs[1];
  const float* bias = call.inputs[2].data == nullptr ? nullptr : call.inputs[2].row<float>(0, 0);
  const TensorRef& out = call.outputs[0];
  const double eps = std::get<op::LayerNorm>(call.params).eps;
  const int64_t n = x.desc.shape[0];
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < x.desc.shape[1]; ++h) {
      const float* in = x.row<float>(h, r);
      const float* w = weight.data == nullptr
                           ? nullptr
                           : weight.row<float>(weight.desc.shape[1] == 1 ? 0 : h, 0);
      float* y = out.row<float>(h, r);
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += in[i];
      const double mean = sum / static_cast<double>(n);
      double squares = 0;
      for (int64_t i = 0; i < n; ++i) squares += (in[i] - mean) * (in[i] - mean);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
      for (int64_t i = 0; i < n; ++i) {
        const double add = bias == nullptr ? 0 : bias[i];
        const double factor = w == nullptr ? 1 : w[i];
        y[i] = static_cast<float>((in[i] - mean) * scale * factor + add);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const int64_t d0 : {2, 5, 64, 288, 1031}) {
      OpCase c;
      c.name = "d0 " + std::to_string(d0) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [d0](CaseBuilder& b) {
        const ValueId x = b.activations(d0);
        const ValueId weight = b.weight(DType::f32, d0);
        b.graph().output(b.graph().add(op::LayerNorm{1e-5f}, {x, weight, kNoValue}));
      };
      all.push_back(c);
      c.name += " with a bias";
      c.build = [d0](CaseBuilder& b) {
        const ValueId x = b.activations(d0);
        const ValueId weight = b.weight(DType::f32, d0);
        b.graph().output(
            b.graph().add(op::LayerNorm{1e-12f}, {x, weight, b.weight(DType::f32, d0)}));
      };
      all.push_back(c);
      c.name = "d0 " + std::to_string(d0) + " rows " + std::to_string(rows) + " without weights";
      c.build = [d0](CaseBuilder& b) {
        b.graph().output(
            b.graph().add(op::LayerNorm{1e-5f}, {b.activations(d0), kNoValue, kNoValue}));
      };
      all.push_back(std::move(c));
    }
    OpCase heads;
    heads.name = "heads of a view, a weight each, rows " + std::to_string(rows);
    heads.rows = rows;
    heads.build = [](CaseBuilder& b) {
      const ValueId x = b.graph().slice(b.activations(7 * 24 + 5), 3, 7 * 24);
      b.graph().output(
          b.graph().add(op::LayerNorm{1e-6f},
                        {b.graph().split_heads(x, 7), b.weight(DType::f32, 24, 7), kNoValue}));
    };
    all.push_back(std::move(heads));
  }
}

}  // namespace

const OpDef& layer_norm_op() {
  static const OpDef def{OpId::LayerNorm, "layer_norm", infer, reference, cases};
  return def;
}

}  // namespace infer
