#include "backends/vulkan/attention.h"

#include <algorithm>

#include "backends/vulkan/cache.h"
#include "engine/core/checked.h"

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
  VkDeviceAddress chunks;
};

/// ops/attention_merge.comp
struct MergePush {
  VkDeviceAddress step, chunks, slots, sinks, y;
  StridePush y_strides;
  uint32_t window;
};

/// glsl/merge.glsl
constexpr int64_t kChunks = 32;
/// Query heads that share the keys that a workgroup loads, at most.
constexpr int64_t kMostHeads = 4;

int64_t heads_together(int64_t group) {
  int64_t heads = std::min(group, kMostHeads);
  while (group % heads != 0) --heads;
  return heads;
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::Attention>();
  const auto layer = static_cast<size_t>(p.kv_layer);
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = kv.layers[layer];
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const Operand& q = call.inputs[0];
  const Operand& slots = call.inputs[1];
  const Operand& sinks = call.inputs[3];
  const Operand& y = call.outputs[0];
  const int64_t group = q.dim(1) / shape.heads;
  const int64_t heads = heads_together(group);
  const bool split = call.tuning.splits(q.dim(2));
  const auto v_dim = static_cast<uint32_t>(shape.v_dim);
  const uint32_t constants[] = {*cache_type(kv.k_type),
                                *cache_type(kv.v_type),
                                static_cast<uint32_t>(shape.k_dim),
                                v_dim,
                                at.k_element > 0 ? 1u : 0u,
                                sinks.given() ? 1u : 0u,
                                static_cast<uint32_t>(heads),
                                split ? 1u : 0u};
  call.recorder.dispatch(
      "attention", constants,
      Push{call.step, q.address, slots.address, call.inputs[2].address, sinks.address, y.address,
           strides_of(q), strides_of(y), static_cast<uint32_t>(group),
           static_cast<uint32_t>(at.kind), static_cast<uint32_t>(at.k_offset),
           static_cast<uint32_t>(at.v_offset), static_cast<uint32_t>(at.k_row),
           static_cast<uint32_t>(at.v_row), p.scale, p.softcap, static_cast<uint32_t>(p.window),
           q.size(0), call.scratch},
      {q.dim(1) / heads, q.dim(2), split ? kChunks : 1});
  if (!split) return;
  call.recorder.barrier();
  const uint32_t merge[] = {0, v_dim, sinks.given() ? 1u : 0u};
  call.recorder.dispatch("attention_merge", merge,
                         MergePush{call.step, call.scratch, slots.address, sinks.address, y.address,
                                   strides_of(y), static_cast<uint32_t>(p.window)},
                         {div_ceil<int64_t>(y.dim(0), 64), y.dim(1), y.dim(2)});
}

}  // namespace

int64_t attention_scratch_bytes(const Segment& segment, const Tuning& tuning) {
  int64_t most = 0;
  for (const Node& node : segment.nodes()) {
    if (node.op() != OpId::Attention) continue;
    const auto& shape = segment.graph->value(node.outputs[0]).desc.shape;
    const int64_t rows = std::min(shape[2], tuning.split_rows);
    most = std::max(most, (shape[0] + 2) * kChunks * shape[1] * rows * int64_t{sizeof(float)});
  }
  return most;
}

const VulkanOp& attention_vulkan() {
  static const VulkanOp op{OpId::Attention, cache_supports, record};
  return op;
}

}  // namespace infer::vulkan
