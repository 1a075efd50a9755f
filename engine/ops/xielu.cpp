#include <algorithm>
#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("xielu", in, 1, {0}));
  INFER_CHECK_R(check_shape("xielu", in[0]->desc.type == DType::f32, "x f32", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::Xielu>(call.params);
  const TensorRef& out = call.outputs[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* in = call.inputs[0].row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        const double x = in[i];
        const double curve =
            x > 0 ? p.positive * x * x : p.negative * (std::expm1(std::min<double>(x, p.eps)) - x);
        out.row<float>(h, r)[i] = static_cast<float>(curve + p.beta * x);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const float eps : {-1e-6f, -0.25f}) {
      OpCase c;
      c.name = "eps " + std::to_string(eps) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [eps](CaseBuilder& b) {
        const ValueId x = b.graph().split_heads(b.activations(3 * 37, 1, 4.0f), 3);
        b.graph().output(b.graph().add(op::Xielu{0.7f, 1.4f, 0.45f, eps}, {x}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& xielu_op() {
  static const OpDef def{OpId::Xielu, "xielu", infer, reference, cases};
  return def;
}

}  // namespace infer
