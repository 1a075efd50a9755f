#include <algorithm>

#include "backends/cpu/parallel.h"
#include "engine/core/portable_math.h"

namespace infer::cpu {
namespace {

/// Divides n elements that are `step` apart by their sum plus `least`.
void divide(double* x, int64_t n, int64_t step, double least) {
  double sum = least;
  for (int64_t i = 0; i < n; ++i) sum += x[i * step];
  for (int64_t i = 0; i < n; ++i) x[i * step] /= sum;
}

void run(const CpuCall& call) {
  const auto& p = std::get<op::StreamGates>(call.params);
  const TensorRef& x = call.inputs[0];
  const float* scales = call.inputs[1].row<float>(0, 0);
  const float* base = call.inputs[2].row<float>(0, 0);
  const int64_t n = p.streams;
  const double eps = p.eps;
  for_each_row(call, x.desc, [&](int64_t, int64_t r) {
    const float* in = x.row<float>(0, r);
    const auto y = [&](int64_t i, int64_t part) {
      return static_cast<double>(scales[part]) * in[i] + base[i];
    };
    float* taken = call.outputs[0].row<float>(0, r);
    for (int64_t i = 0; i < n; ++i) {
      taken[i] = static_cast<float>(portable::sigmoid(y(i, 0)) + eps);
    }
    if (p.iterations == 0) return;
    float* given = call.outputs[1].row<float>(0, r);
    for (int64_t i = 0; i < n; ++i) {
      given[i] = static_cast<float>(2 * portable::sigmoid(y(n + i, 1)));
    }
    double m[op::StreamGates::kMostStreams * op::StreamGates::kMostStreams];
    for (int64_t i = 0; i < n * n; ++i) m[i] = y(2 * n + i, 2);
    for (double* row = m; row < m + n * n; row += n) {
      const double best = *std::max_element(row, row + n);
      for (int64_t i = 0; i < n; ++i) row[i] = portable::exp(row[i] - best);
      divide(row, n, 1, 0.0);
      for (int64_t i = 0; i < n; ++i) row[i] += eps;
    }
    for (int32_t turn = 0; turn < p.iterations; ++turn) {
      for (int64_t i = 0; i < n && turn > 0; ++i) divide(m + i * n, n, 1, eps);
      for (int64_t i = 0; i < n; ++i) divide(m + i, n, n, eps);
    }
    std::transform(m, m + n * n, call.outputs[2].row<float>(0, r),
                   [](double v) { return static_cast<float>(v); });
  });
}

}  // namespace

const CpuOp& stream_gates_cpu() {
  static const CpuOp op{OpId::StreamGates, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
