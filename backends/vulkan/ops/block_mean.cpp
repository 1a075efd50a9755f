#include <algorithm>

#include "backends/vulkan/op.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, y, slots, sequences;
  uint32_t width;
  uint32_t x_stride, y_stride;
  uint32_t kind, offset;
  uint32_t block;
};

/// Sequences that are computed beside each other, at most.
constexpr int64_t kMostAtOnce = 16;

void record(const NodeCall& call) {
  const auto& p = call.params<op::BlockMean>();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("block_mean",
                         Push{.step = call.step,
                              .x = x.address,
                              .y = y.address,
                              .slots = call.inputs[1].address,
                              .sequences = call.inputs[2].address,
                              .width = x.size(0),
                              .x_stride = x.stride(2),
                              .y_stride = y.stride(2),
                              .kind = static_cast<uint32_t>(at.kind),
                              .offset = static_cast<uint32_t>(at.k_offset),
                              .block = static_cast<uint32_t>(p.block)},
                         {div_ceil<int64_t>(x.dim(0), 64), 1, std::min(x.dim(2), kMostAtOnce)});
}

}  // namespace

const VulkanOp& block_mean_vulkan() {
  static const VulkanOp op{OpId::BlockMean, always_supported, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::vulkan
