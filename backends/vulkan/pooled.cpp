#include "backends/vulkan/pooled.h"

#include <algorithm>

#include "backends/gpu/split_rows.h"
#include "backends/vulkan/cache.h"
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

constexpr int64_t kTogether = 2048;  ///< elements of the queries of a workgroup

/// Rows of a step that are split along the keys: all of them, or some that do not matter.
int64_t pooled_split_rows(const TensorDesc& y, const Tuning& tuning) {
  return gpu::split_rows(y, kChunks, tuning.split_rows);
}

}  // namespace

bool pooled_takes(const KvLayerShape& shape) {
  return shape.v_dim <= kMostPooledValue && shape.k_dim <= kMostPooledKey;
}

int64_t pooled_scratch(const TensorDesc& y, const Tuning& tuning) {
  return gpu::chunk_bytes(y, kChunks) * pooled_split_rows(y, tuning);
}

void record_pooled(const NodeCall& call, const PooledKeys& keys) {
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = kv.layers[static_cast<size_t>(keys.slots_layer)];
  const KvLayerLayout& slots = call.kv_layout.layers[static_cast<size_t>(keys.slots_layer)];
  const KvLayerLayout& blocks = call.kv_layout.layers[static_cast<size_t>(keys.blocks_layer)];
  const Operand& q = call.inputs[0];
  const Operand& sinks = keys.sinks;
  const Operand& chosen = keys.chosen;
  const Operand& y = call.outputs[0];
  const int64_t heads =
      std::clamp<int64_t>(kTogether / q.dim(0), 1, std::min<int64_t>(4, q.dim(1)));
  const bool whole = slots.k_element == 0 && whole_rows(kv.k_type, shape.k_dim, slots.k_row);
  const bool split = y.dim(2) == pooled_split_rows(y.value->desc, call.tuning);
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
            .window = static_cast<uint32_t>(keys.window),
            .chosen_stride = chosen.given() ? chosen.stride(2) : 0,
            .scale = keys.scale};
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

}  // namespace infer::vulkan
