#include <algorithm>
#include <limits>

#include "backends/cpu/parallel.h"
#include "backends/cpu/row_states.h"

namespace infer::cpu {
namespace {

constexpr int64_t kGrain = 16;  ///< elements that a thread takes at once

void run(const CpuCall& call) {
  const auto& p = std::get<op::BlockPool>(call.params);
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const KvPages& pages = call.pages[static_cast<size_t>(at.kind)];
  const TensorRef& x = call.inputs[0];
  const int64_t d = call.outputs[0].desc.shape[0];
  const auto [begin, end] = split_range(d, call.thread, call.threads(), kGrain);
  const int64_t runs = p.overlaps ? 6 : 3;  // of the own block, and of the next one
  RowStates row_states(pages, at.k_offset);
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const int32_t slot = *call.inputs[2].row<int32_t>(0, r);
    const int32_t sequence = *call.inputs[3].row<int32_t>(0, r);
    float* const state = pages.state(sequence, at.k_offset) + p.at;
    // Elements of one of the numbers that are kept for each.
    const auto kept = [&, begin = begin](int64_t number) { return state + number * d + begin; };
    const int64_t count = end - begin;
    if (slot % p.block == 0) {
      if (p.overlaps && slot > 0) {
        for (int64_t i = 0; i < 3; ++i) std::copy_n(kept(3 + i), count, kept(i));
      }
      for (int64_t i = p.overlaps && slot > 0 ? 3 : 0; i < runs; ++i) {
        std::fill_n(kept(i), count, i % 3 == 0 ? std::numeric_limits<float>::lowest() : 0.0f);
      }
    }
    const auto take = [&, begin = begin](int64_t first, float* run, float* out) {
      const int64_t from = first + begin;
      call.vec().recurrent->pool(run, d, call.inputs[1].row<float>(0, r) + from,
                                 x.row<float>(0, r) + from, out, count);
    };
    take(p.overlaps ? d : 0, kept(0), call.outputs[0].row<float>(0, r) + begin);
    if (p.overlaps) take(0, kept(3), nullptr);
    if (float* to = row_states.after_row(sequence); to != nullptr) {
      for (int64_t i = 0; i < runs; ++i) {
        std::copy_n(kept(i), count, to + p.at + i * d + begin);
      }
    }
  }
}

}  // namespace

const CpuOp& block_pool_cpu() {
  static const CpuOp op{OpId::BlockPool, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
