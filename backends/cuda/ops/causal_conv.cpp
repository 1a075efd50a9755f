#include "backends/cuda/ops/causal_conv.h"

#include <algorithm>

#include "backends/cuda/op.h"
#include "backends/cuda/scan.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

static_assert(kMostTaps == 16);

void record(const NodeCall& call) {
  const auto& p = call.params<op::CausalConv>();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  const int64_t taps = call.inputs[1].dim(0);
  const int64_t offset = at.k_offset + p.at * int64_t{sizeof(float)};
  const int64_t sharing = std::min(x.dim(2), kSequencesAtOnce);
  const bool few = (taps - 1) * p.dilation < kFewTaps;
  call.recorder.launch(few ? "causal_conv_4" : "causal_conv_16",
                       CausalConvParams{.step = call.step,
                                        .x = x.address,
                                        .w = call.inputs[1].address,
                                        .y = y.address,
                                        .slots = call.inputs[3].address,
                                        .sequences = call.inputs[4].address,
                                        .bias = call.inputs[2].address,
                                        .channels = x.size(0),
                                        .x_stride = x.stride(2),
                                        .y_stride = y.stride(2),
                                        .kind = static_cast<uint32_t>(at.kind),
                                        .offset = static_cast<uint32_t>(offset),
                                        .taps = static_cast<uint32_t>(taps),
                                        .silu = p.silu ? 1u : 0u,
                                        .sharing = static_cast<uint32_t>(sharing),
                                        .dilation = static_cast<uint32_t>(p.dilation),
                                        .unused = 0},
                       {div_ceil<int64_t>(x.dim(0), kConvThreads), 1, sharing}, kConvThreads);
}

}  // namespace

const CudaOp& causal_conv_cuda() {
  static const CudaOp op{OpId::CausalConv, always_supported, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::cuda
