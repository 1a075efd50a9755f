#include <algorithm>
#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("stream_gates", in, 3, {0, 1, 2}));
  const auto& p = std::get<op::StreamGates>(params);
  const int64_t n = p.streams;
  const bool all = p.iterations > 0;
  const int64_t elements = all ? n * (n + 2) : n;
  INFER_CHECK_R(check_shape(
      "stream_gates",
      n >= 1 && n <= op::StreamGates::kMostStreams && p.iterations >= 0 &&
          in[0]->desc.type == DType::f32 && in[0]->desc.shape[0] == elements &&
          in[0]->desc.shape[1] == 1 && in[1]->desc.type == DType::f32 &&
          in[1]->desc.shape[0] == (all ? 3 : 1) && in[2]->desc.type == DType::f32 &&
          in[2]->desc.shape[0] == elements,
      "x f32 [n + n + n·n, 1, rows], scale f32 [3], base f32 of as many elements; or n and 1", in));
  std::vector<OutputDesc> made_all{made(DType::f32, n, 1, *in[0])};
  if (!all) return made_all;
  made_all.push_back(made(DType::f32, n, 1, *in[0]));
  made_all.push_back(made(DType::f32, n * n, 1, *in[0]));
  return made_all;
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::StreamGates>(call.params);
  const TensorRef& x = call.inputs[0];
  const auto n = static_cast<size_t>(p.streams);
  const double eps = p.eps;
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const auto y = [&](size_t i, size_t part) {
      const double scale = call.inputs[1].row<float>(0, 0)[part];
      return scale * x.row<float>(0, r)[i] + call.inputs[2].row<float>(0, 0)[i];
    };
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    for (size_t i = 0; i < n; ++i) {
      call.outputs[0].row<float>(0, r)[i] = static_cast<float>(sigmoid(y(i, 0)) + eps);
    }
    if (p.iterations == 0) continue;
    for (size_t i = 0; i < n; ++i) {
      call.outputs[1].row<float>(0, r)[i] = static_cast<float>(2 * sigmoid(y(n + i, 1)));
    }
    std::vector<double> m;
    for (size_t i = 0; i < n * n; ++i) m.push_back(y(2 * n + i, 2));
    // Divides the elements that are `step` apart by their sum.
    const auto divide = [&](size_t first, size_t step, double least) {
      double sum = least;
      for (size_t i = 0; i < n; ++i) sum += m[first + i * step];
      for (size_t i = 0; i < n; ++i) m[first + i * step] /= sum;
    };
    for (size_t row = 0; row < n; ++row) {
      const auto begin = m.begin() + static_cast<ptrdiff_t>(row * n);
      const double best = *std::max_element(begin, begin + static_cast<ptrdiff_t>(n));
      for (size_t i = 0; i < n; ++i) m[row * n + i] = std::exp(m[row * n + i] - best);
      divide(row * n, 1, 0.0);
    }
    for (double& v : m) v += eps;
    for (int32_t turn = 0; turn < p.iterations; ++turn) {
      for (size_t row = 0; row < n && turn > 0; ++row) divide(row * n, 1, eps);
      for (size_t column = 0; column < n; ++column) divide(column, n, eps);
    }
    std::ranges::transform(m, call.outputs[2].row<float>(0, r),
                           [](double v) { return static_cast<float>(v); });
  }
}

void cases(std::vector<OpCase>& all) {
  for (const auto& [n, iterations] :
       {std::pair{4, 20}, {3, 1}, {2, 2}, {8, 5}, {1, 3}, {4, 0}, {3, 0}}) {
    for (const int64_t rows : {1, 2, 3, 33, 150}) {
      OpCase c;
      c.name = "streams " + std::to_string(n) + " iterations " + std::to_string(iterations) +
               " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [n = n, iterations = iterations](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        const int64_t elements = iterations > 0 ? n * (n + 2) : n;
        const ValueId x = g.slice(b.activations(elements + 5, 1, 2.0f), 3, elements);
        const ValueId scale = b.weight(DType::f32, iterations > 0 ? 3 : 1);
        const ValueId base = b.weight(DType::f32, elements);
        for (const ValueId made :
             g.add_all(op::StreamGates{n, iterations, 1e-3f}, {x, scale, base})) {
          g.output(made);
        }
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& stream_gates_op() {
  static const OpDef def{OpId::StreamGates, "stream_gates", infer, reference, cases};
  return def;
}

}  // namespace infer
