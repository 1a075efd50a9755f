#include <algorithm>

#include "backends/vulkan/op.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, w, bias, y, slots, sequences;
  uint32_t channels;
  uint32_t x_stride, y_stride;
  uint32_t kind, offset;
};

/// Sequences that are computed beside each other, at most.
constexpr int64_t kMostAtOnce = 16;

void record(const NodeCall& call) {
  const auto& p = call.params<op::CausalConv>();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& x = call.inputs[0];
  const Operand& w = call.inputs[1];
  const Operand& bias = call.inputs[2];
  const Operand& y = call.outputs[0];
  const CausalConvConstants constants{.taps = w.size(0),
                                      .silu = p.silu ? 1u : 0u,
                                      .bias = bias.given() ? 1u : 0u,
                                      .dilation = static_cast<uint32_t>(p.dilation)};
  call.recorder.dispatch(
      "causal_conv", constants,
      Push{.step = call.step,
           .x = x.address,
           .w = w.address,
           .bias = bias.address,
           .y = y.address,
           .slots = call.inputs[3].address,
           .sequences = call.inputs[4].address,
           .channels = x.size(0),
           .x_stride = x.stride(2),
           .y_stride = y.stride(2),
           .kind = static_cast<uint32_t>(at.kind),
           .offset = static_cast<uint32_t>(at.k_offset + p.at * int64_t{sizeof(float)})},
      {div_ceil<int64_t>(x.dim(0), 64), 1, std::min(x.dim(2), kMostAtOnce)});
}

}  // namespace

const VulkanOp& causal_conv_vulkan() {
  static const VulkanOp op{OpId::CausalConv, always_supported, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::vulkan
