#include <algorithm>

#include "backends/vulkan/op.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, gate, y, slots, sequences;
  uint32_t width;
  uint32_t x_stride, gate_stride, y_stride;
  uint32_t kind, offset;
  uint32_t block;
  uint32_t overlaps;
};

/// Sequences that are computed beside each other, at most.
constexpr int64_t kMostAtOnce = 16;

void record(const NodeCall& call) {
  const auto& p = call.params<op::BlockPool>();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  const int64_t offset = at.k_offset + p.at * int64_t{sizeof(float)};
  call.recorder.dispatch("block_pool",
                         Push{.step = call.step,
                              .x = x.address,
                              .gate = call.inputs[1].address,
                              .y = y.address,
                              .slots = call.inputs[2].address,
                              .sequences = call.inputs[3].address,
                              .width = y.size(0),
                              .x_stride = x.stride(2),
                              .gate_stride = call.inputs[1].stride(2),
                              .y_stride = y.stride(2),
                              .kind = static_cast<uint32_t>(at.kind),
                              .offset = static_cast<uint32_t>(offset),
                              .block = static_cast<uint32_t>(p.block),
                              .overlaps = p.overlaps ? 1u : 0u},
                         {div_ceil<int64_t>(y.dim(0), 64), 1, std::min(x.dim(2), kMostAtOnce)});
}

}  // namespace

const VulkanOp& block_pool_vulkan() {
  static const VulkanOp op{OpId::BlockPool, always_supported, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::vulkan
