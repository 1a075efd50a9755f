#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("rms_norm", in, 2, {0}));
  const TensorDesc& x = in[0]->desc;
  INFER_CHECK_R(check_shape(
      "rms_norm",
      x.type == DType::f32 && (in[1] == nullptr || (in[1]->desc.type == DType::f32 &&
                                                    in[1]->desc.shape[0] == x.shape[0])),
      "x f32 [d0, d1, rows], weight f32 [d0]", in));
  return std::vector{made(DType::f32, x.shape[0], x.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& weight = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const double eps = std::get<op::RmsNorm>(call.params).eps;
  const int64_t n = x.desc.shape[0];
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < x.desc.shape[1]; ++h) {
      const float* in = x.row<float>(h, r);
      float* y = out.row<float>(h, r);
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(in[i]) * in[i];
      const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
      for (int64_t i = 0; i < n; ++i) {
        const double w = weight.data == nullptr ? 1.0 : weight.row<float>(0, 0)[i];
        y[i] = static_cast<float>(in[i] * scale * w);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const int64_t d0 : {1, 5, 64, 288, 1031}) {
      OpCase c;
      c.name = "d0 " + std::to_string(d0) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [d0](CaseBuilder& b) {
        const ValueId x = b.activations(d0);
        b.graph().output(b.graph().add(op::RmsNorm{1e-5f}, {x, b.weight(DType::f32, d0)}));
      };
      all.push_back(std::move(c));
    }
    OpCase heads;
    heads.name = "heads of a view, no weight, rows " + std::to_string(rows);
    heads.rows = rows;
    heads.build = [](CaseBuilder& b) {
      const ValueId x = b.graph().slice(b.activations(7 * 24 + 5), 3, 7 * 24);
      b.graph().output(b.graph().add(op::RmsNorm{1e-6f}, {b.graph().split_heads(x, 7), kNoValue}));
    };
    all.push_back(std::move(heads));
  }
}

}  // namespace

const OpDef& rms_norm_op() {
  static const OpDef def{OpId::RmsNorm, "rms_norm", infer, reference, cases};
  return def;
}

}  // namespace infer
