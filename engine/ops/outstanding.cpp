#include <algorithm>
#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("outstanding", in, 1, {0}));
  INFER_CHECK_R(check_shape("outstanding", in[0]->desc.type == DType::f32, "x f32", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& out = call.outputs[0];
  const int64_t n = out.desc.shape[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      float* y = out.row<float>(h, r);
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += x[i];
      const double mean = sum / static_cast<double>(n);
      double squares = 0;
      for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
      const double deviation = std::sqrt(squares / static_cast<double>(n));
      const double least = mean + std::get<op::Outstanding>(call.params).factor * deviation;
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(std::max(0.0, x[i] - least));
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t rows : {1, 2, 3, 33}) {
    for (const int64_t d0 : {5, 64, 131}) {
      OpCase c;
      c.name = "d0 " + std::to_string(d0) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [d0](CaseBuilder& b) {
        const ValueId x = b.graph().split_heads(b.activations(3 * d0, 1, 2.0f), 3);
        b.graph().output(b.graph().add(op::Outstanding{0.7f}, {x}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& outstanding_op() {
  static const OpDef def{OpId::Outstanding, "outstanding", infer, reference, cases};
  return def;
}

}  // namespace infer
