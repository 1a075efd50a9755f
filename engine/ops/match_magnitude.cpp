#include <algorithm>
#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("match_magnitude", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape("match_magnitude",
                            in[0]->desc.type == DType::f32 && in[1]->desc.type == DType::f32 &&
                                in[1]->desc.shape[0] == in[0]->desc.shape[0] &&
                                in[1]->desc.shape[1] == 1,
                            "x f32 [d0, d1, rows], like f32 [d0, 1, rows]", in));
  return std::vector{made(DType::f32, in[0]->desc.shape[0], in[0]->desc.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& out = call.outputs[0];
  const int64_t n = out.desc.shape[0];
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      float* y = out.row<float>(h, r);
      const float* like = call.inputs[1].row<float>(0, r);
      double own = 0;
      double wanted = 0;
      for (int64_t i = 0; i < n; ++i) {
        own += static_cast<double>(x[i]) * x[i];
        wanted += static_cast<double>(like[i]) * like[i];
      }
      const auto count = static_cast<double>(n);
      const double floor = std::get<op::MatchMagnitude>(call.params).floor;
      const double factor = std::sqrt(wanted / count / std::max(own / count, floor));
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i] * factor);
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
        b.graph().output(
            b.graph().add(op::MatchMagnitude{d0 == 5 ? 9.0f : 1e-5f}, {x, b.activations(d0)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& match_magnitude_op() {
  static const OpDef def{OpId::MatchMagnitude, "match_magnitude", infer, reference, cases};
  return def;
}

}  // namespace infer
