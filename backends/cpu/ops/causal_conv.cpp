#include <algorithm>
#include <cstring>

#include "backends/cpu/parallel.h"
#include "backends/cpu/row_states.h"

namespace infer::cpu {
namespace {

constexpr int64_t kBlock = 64;  ///< channels that a thread takes at once

void run_block(const CpuCall& call, int64_t first, int64_t channels) {
  const auto& p = std::get<op::CausalConv>(call.params);
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const KvPages& pages = call.pages[static_cast<size_t>(at.kind)];
  const TensorRef& x = call.inputs[0];
  const TensorRef& bias = call.inputs[2];
  const int64_t all = x.desc.shape[0];
  const int64_t taps = call.inputs[1].desc.shape[0];
  const int64_t kept = (taps - 1) * p.dilation;
  float w[kMostTaps * kBlock];  // tap by tap
  for (int64_t c = 0; c < channels; ++c) {
    const float* of_channel = call.inputs[1].desc.shape[1] == 1
                                  ? call.inputs[1].row<float>(0, first + c)
                                  : call.inputs[1].row<float>(first + c, 0);
    for (int64_t j = 0; j < taps; ++j) w[j * kBlock + c] = of_channel[j];
  }
  const float* before[kMostTaps];
  RowStates row_states(pages, at.k_offset);
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const int64_t slot = *call.inputs[3].row<int32_t>(0, r);
    float* state = pages.state(*call.inputs[4].row<int32_t>(0, r), at.k_offset) + p.at + first;
    for (int64_t j = 0; j + 1 < taps; ++j) {
      const int64_t s = slot - (taps - 1 - j) * p.dilation;
      before[j] = s < 0 ? nullptr : state + s % kept * all;
    }
    call.vec().recurrent->conv(
        {x.row<float>(0, r) + first, call.outputs[0].row<float>(0, r) + first, w, kBlock, taps,
         bias.data == nullptr ? nullptr : bias.row<float>(0, 0) + first, before,
         state + slot % kept * all, p.silu},
        channels);
    if (float* to = row_states.after_row(*call.inputs[4].row<int32_t>(0, r)); to != nullptr) {
      for (int64_t j = 0; j < kept; ++j) {
        std::memcpy(to + p.at + first + j * all, state + j * all,
                    static_cast<size_t>(channels) * sizeof(float));
      }
    }
  }
}

void run(const CpuCall& call) {
  const int64_t channels = call.inputs[0].desc.shape[0];
  const Range range = split_range(div_ceil(channels, kBlock), call.thread, call.threads());
  for (int64_t block = range.begin; block < range.end; ++block) {
    const int64_t first = block * kBlock;
    run_block(call, first, std::min(kBlock, channels - first));
  }
}

}  // namespace

const CpuOp& causal_conv_cpu() {
  static const CpuOp op{OpId::CausalConv, Sharing::whole, always_supported, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
