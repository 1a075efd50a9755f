#include "backends/vulkan/cache.h"
#include "backends/vulkan/op.h"
#include "backends/vulkan/pooled.h"

namespace infer::vulkan {
namespace {

Status supports(const NodeView& node) {
  INFER_CHECK(cache_supports(node));
  const auto layer = static_cast<size_t>(std::get<op::PooledAttention>(node.node.params).kv_layer);
  const KvLayerShape& shape = node.graph.kv().layers[layer];
  if (pooled_takes(shape)) return {};
  return error(StatusCode::unsupported,
               "keys of {} and values of {} elements; at most {} and {} are supported", shape.k_dim,
               shape.v_dim, kMostPooledKey, kMostPooledValue);
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::PooledAttention>();
  record_pooled(call, {.slots_layer = p.kv_layer,
                       .blocks_layer = p.pooled_layer,
                       .window = p.window,
                       .scale = p.scale,
                       .sinks = call.inputs[3],
                       .chosen = call.inputs[4]});
}

/// For the chunks of rows that are split along the keys.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  return pooled_scratch(node.graph.value(node.node.outputs[0]).desc, tuning);
}

}  // namespace

const VulkanOp& pooled_attention_vulkan() {
  static const VulkanOp op{OpId::PooledAttention, supports, record, scratch, CacheUse::reads};
  return op;
}

}  // namespace infer::vulkan
