#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/row_states.h"

namespace infer::cpu {
namespace {

constexpr int64_t kGrain = 16;  ///< elements that a thread takes at once

void run(const CpuCall& call) {
  const auto& p = std::get<op::BlockMean>(call.params);
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const KvPages& pages = call.pages[static_cast<size_t>(at.kind)];
  const TensorRef& x = call.inputs[0];
  const Range part = split_range(x.desc.shape[0], call.thread, call.threads(), kGrain);
  RowStates row_states(pages, at.k_offset);
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const int32_t sequence = *call.inputs[2].row<int32_t>(0, r);
    const int32_t place = *call.inputs[1].row<int32_t>(0, r) % p.block;
    float* sums = pages.state(sequence, at.k_offset);
    const float* in = x.row<float>(0, r);
    float* out = call.outputs[0].row<float>(0, r);
    const auto count = static_cast<float>(place + 1);
    for (int64_t i = part.begin; i < part.end; ++i) {
      sums[i] = (place == 0 ? 0.0f : sums[i]) + in[i];
      out[i] = sums[i] / count;
    }
    if (float* to = row_states.after_row(sequence); to != nullptr) {
      std::copy(sums + part.begin, sums + part.end, to + part.begin);
    }
  }
}

}  // namespace

const CpuOp& block_mean_cpu() {
  static const CpuOp op{OpId::BlockMean, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
