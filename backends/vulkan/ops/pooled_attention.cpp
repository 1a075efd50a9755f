#include <algorithm>

#include "backends/gpu/split_rows.h"
#include "backends/vulkan/cache.h"
#include "backends/vulkan/op.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, q, slots, sequences, sinks, y, chosen, chunks;
  StridePush q_strides, y_strides;
  uint32_t kind[2], k_offset[2], v_offset[2];
  uint32_t k_row, v_row;
  uint32_t heads;
  uint32_t window;
  uint32_t chosen_stride;
  float scale;
};
static_assert(sizeof(Push) <= 128);

/// ops/pooled_merge.comp
struct MergePush {
  VkDeviceAddress step, chunks, slots, sinks, y;
  StridePush y_strides;
  uint32_t window;
};

constexpr int64_t kChunks = 32;  ///< glsl/merge.glsl
/// Rows of a step that are split along the keys: all of them, or some that do not matter.
int64_t split_rows(const TensorDesc& y, const Tuning& tuning) {
  return gpu::split_rows(y, kChunks, tuning.split_rows);
}

/// What queries take of shared memory, and values of registers, on every device.
constexpr int64_t kMostKey = 1024;
constexpr int64_t kMostValue = 1024;
constexpr int64_t kTogether = 2048;  ///< elements of the queries of a workgroup

const KvLayerShape& shape_of_slots(const Graph& graph, const Node& node) {
  const auto layer = static_cast<size_t>(std::get<op::PooledAttention>(node.params).kv_layer);
  return graph.kv().layers[layer];
}

Status supports(const NodeView& node) {
  INFER_CHECK(cache_supports(node));
  const KvLayerShape& shape = shape_of_slots(node.graph, node.node);
  if (shape.v_dim <= kMostValue && shape.k_dim <= kMostKey) return {};
  return error(StatusCode::unsupported,
               "keys of {} and values of {} elements; at most {} and {} are supported", shape.k_dim,
               shape.v_dim, kMostKey, kMostValue);
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::PooledAttention>();
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = shape_of_slots(call.graph, call.node);
  const KvLayerLayout& slots = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const KvLayerLayout& blocks = call.kv_layout.layers[static_cast<size_t>(p.pooled_layer)];
  const Operand& q = call.inputs[0];
  const Operand& sinks = call.inputs[3];
  const Operand& chosen = call.inputs[4];
  const Operand& y = call.outputs[0];
  const int64_t heads =
      std::clamp<int64_t>(kTogether / q.dim(0), 1, std::min<int64_t>(4, q.dim(1)));
  const bool whole = slots.k_element == 0 && whole_rows(kv.k_type, shape.k_dim, slots.k_row);
  const bool split = y.dim(2) == split_rows(y.value->desc, call.tuning);
  const PooledAttentionConstants constants{.heads = static_cast<uint32_t>(heads),
                                           .key_dim = static_cast<uint32_t>(shape.k_dim),
                                           .value_dim = static_cast<uint32_t>(shape.v_dim),
                                           .key_type = *cache_type(kv.k_type),
                                           .value_type = *cache_type(kv.v_type),
                                           .keys_whole = whole ? 1u : 0u,
                                           .element = static_cast<uint32_t>(slots.k_element),
                                           .tokens = static_cast<uint32_t>(blocks.tokens),
                                           .sinks = sinks.given() ? 1u : 0u,
                                           .chosen = chosen.given() ? chosen.size(0) : 0,
                                           .split = split ? 1u : 0u};
  const auto both = [](int64_t first, int64_t second, uint32_t(&to)[2]) {
    to[0] = static_cast<uint32_t>(first);
    to[1] = static_cast<uint32_t>(second);
  };
  Push push{.step = call.step,
            .q = q.address,
            .slots = call.inputs[1].address,
            .sequences = call.inputs[2].address,
            .sinks = sinks.address,
            .y = y.address,
            .chosen = chosen.address,
            .chunks = call.scratch,
            .q_strides = strides_of(q),
            .y_strides = strides_of(y),
            .kind = {},
            .k_offset = {},
            .v_offset = {},
            .k_row = static_cast<uint32_t>(slots.k_row),
            .v_row = static_cast<uint32_t>(slots.v_row),
            .heads = q.size(1),
            .window = static_cast<uint32_t>(p.window),
            .chosen_stride = chosen.given() ? chosen.stride(2) : 0,
            .scale = p.scale};
  both(slots.kind, blocks.kind, push.kind);
  both(slots.k_offset, blocks.k_offset, push.k_offset);
  both(slots.v_offset, blocks.v_offset, push.v_offset);
  call.recorder.dispatch("pooled_attention", constants, push,
                         {div_ceil<int64_t>(q.dim(1), heads), y.dim(2), split ? kChunks : 1},
                         Parts::along_y);
  if (!split) return;
  call.recorder.barrier();
  call.recorder.dispatch("pooled_merge", constants,
                         MergePush{.step = call.step,
                                   .chunks = call.scratch,
                                   .slots = push.slots,
                                   .sinks = sinks.address,
                                   .y = y.address,
                                   .y_strides = push.y_strides,
                                   .window = push.window},
                         {div_ceil<int64_t>(y.dim(0), 64), y.dim(1), y.dim(2)});
}

/// For the chunks of rows that are split along the keys.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  return gpu::chunk_bytes(y, kChunks) * split_rows(y, tuning);
}

}  // namespace

const VulkanOp& pooled_attention_vulkan() {
  static const VulkanOp op{OpId::PooledAttention, supports, record, scratch, CacheUse::reads};
  return op;
}

}  // namespace infer::vulkan
