#include <algorithm>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

void run(const CpuCall& call) {
  constexpr int64_t kPiece = 64;  // elements whose sums are in registers at a time
  const TensorRef& x = call.inputs[0];
  const TensorRef& out = call.outputs[0];
  for_each_stretch(call, out.desc, [&](int64_t h, int64_t i, int64_t first, int64_t last) {
    const int32_t begin = *call.inputs[1].row<int32_t>(0, i);
    const int32_t end = *call.inputs[2].row<int32_t>(0, i);
    for (int64_t at = first; at < last; at += kPiece) {
      const int64_t n = std::min(kPiece, last - at);
      double sums[kPiece] = {};
      for (int32_t r = begin; r < end; ++r) {
        const float* row = x.row<float>(h, r) + at;
        for (int64_t e = 0; e < n; ++e) sums[e] += row[e];
      }
      float* y = out.row<float>(h, i) + at;
      for (int64_t e = 0; e < n; ++e) y[e] = static_cast<float>(sums[e] / (end - begin));
    }
  });
}

}  // namespace

const CpuOp& mean_rows_cpu() {
  static const CpuOp op{OpId::MeanRows, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
