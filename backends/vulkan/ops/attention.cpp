#include "backends/vulkan/cache.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, q, slots, sequences, sinks, y;
  StridePush q_strides, y_strides;
  uint32_t group;
  uint32_t kind;
  uint32_t k_offset, v_offset, k_row, v_row;
  float scale, softcap;
  uint32_t window;
  uint32_t key_dim;
};

void record(const NodeCall& call) {
  const auto& p = call.params<op::Attention>();
  const auto layer = static_cast<size_t>(p.kv_layer);
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = kv.layers[layer];
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const Operand& q = call.inputs[0];
  const Operand& sinks = call.inputs[3];
  const Operand& y = call.outputs[0];
  const uint32_t constants[] = {*cache_type(kv.k_type),
                                *cache_type(kv.v_type),
                                static_cast<uint32_t>(shape.k_dim),
                                static_cast<uint32_t>(shape.v_dim),
                                at.k_element > 0 ? 1u : 0u,
                                sinks.given() ? 1u : 0u};
  call.recorder.dispatch(
      "attention", constants,
      Push{call.step, q.address, call.inputs[1].address, call.inputs[2].address, sinks.address,
           y.address, strides_of(q), strides_of(y), static_cast<uint32_t>(q.dim(1) / shape.heads),
           static_cast<uint32_t>(at.kind), static_cast<uint32_t>(at.k_offset),
           static_cast<uint32_t>(at.v_offset), static_cast<uint32_t>(at.k_row),
           static_cast<uint32_t>(at.v_row), p.scale, p.softcap, static_cast<uint32_t>(p.window),
           q.size(0)},
      {q.dim(1), q.dim(2), 1});
}

}  // namespace

const VulkanOp& attention_vulkan() {
  static const VulkanOp op{OpId::Attention, cache_supports, record};
  return op;
}

}  // namespace infer::vulkan
