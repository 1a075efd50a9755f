#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("mix_streams", in, 4, {0, 1, 2, 3}));
  const TensorDesc& x = in[0]->desc;
  const int64_t n = x.shape[1];
  const auto fits = [&](const TensorDesc& given, int64_t d0) {
    return given.type == DType::f32 && given.shape[0] == d0 && given.shape[1] == 1;
  };
  INFER_CHECK_R(check_shape("mix_streams",
                            x.type == DType::f32 && fits(in[1]->desc, n * n) &&
                                fits(in[2]->desc, x.shape[0]) && fits(in[3]->desc, n),
                            "x f32 [d0, n, rows], mix f32 [n·n, 1, rows], h f32 [d0, 1, rows], "
                            "shares f32 [n, 1, rows]",
                            in));
  return std::vector{made(DType::f32, x.shape[0], n, *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const int64_t n = x.desc.shape[1];
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const float* mix = call.inputs[1].row<float>(0, r);
    const float* h = call.inputs[2].row<float>(0, r);
    const float* shares = call.inputs[3].row<float>(0, r);
    for (int64_t to = 0; to < n; ++to) {
      for (int64_t i = 0; i < x.desc.shape[0]; ++i) {
        double sum = static_cast<double>(shares[to]) * h[i];
        for (int64_t from = 0; from < n; ++from) {
          sum += static_cast<double>(mix[from * n + to]) * x.row<float>(from, r)[i];
        }
        call.outputs[0].row<float>(to, r)[i] = static_cast<float>(sum);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const int64_t n : {1, 3, 4}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = "streams " + std::to_string(n) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [n](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        const ValueId h = g.slice(b.activations(80), 3, 71);
        g.output(g.add(op::MixStreams{},
                       {b.activations(71, n), b.activations(n * n), h, b.activations(n)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& mix_streams_op() {
  static const OpDef def{OpId::MixStreams, "mix_streams", infer, reference, cases};
  return def;
}

}  // namespace infer
