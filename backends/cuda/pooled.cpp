#include "backends/cuda/pooled.h"

#include "backends/cuda/cache.h"
#include "backends/cuda/ops/attention.h"
#include "backends/cuda/ops/pooled_attention.h"
#include "backends/cuda/rounded_values.h"
#include "backends/gpu/split_rows.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

PooledLayer layer_of(const KvLayerLayout& at) {
  return {static_cast<uint32_t>(at.kind),     static_cast<uint32_t>(at.k_offset),
          static_cast<uint32_t>(at.v_offset), static_cast<uint32_t>(at.k_row),
          static_cast<uint32_t>(at.v_row),    static_cast<uint32_t>(at.k_element),
          static_cast<uint32_t>(at.tokens),   0};
}

int64_t head_blocks(int64_t heads) { return div_ceil<int64_t>(heads, kPooledHeads); }

}  // namespace

bool pooled_takes(const KvLayerShape& shape) {
  return shape.v_dim <= int64_t{kMostPooledValue} && shape.k_dim <= int64_t{kMostPooledKey};
}

int64_t pooled_split_rows(const TensorDesc& y, const Tuning& tuning) {
  return gpu::split_rows(y, kChunks, tuning.split_rows);
}

int64_t pooled_scratch(const TensorDesc& y, const Tuning& tuning) {
  return gpu::chunk_bytes(y, kChunks) * pooled_split_rows(y, tuning);
}

int64_t pooled_counters(const TensorDesc& y, const Tuning& tuning) {
  return head_blocks(y.shape[1]) * pooled_split_rows(y, tuning);
}

void record_pooled(const NodeCall& call, const PooledKeys& keys) {
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = kv.layers[static_cast<size_t>(keys.slots_layer)];
  const KvLayerLayout& slots = call.kv_layout.layers[static_cast<size_t>(keys.slots_layer)];
  const Operand& q = call.inputs[0];
  const Operand& y = call.outputs[0];
  PooledAttentionParams params{};
  params.step = call.step;
  params.q = q.address;
  params.slots = call.inputs[1].address;
  params.sequences = call.inputs[2].address;
  params.y = y.address;
  params.sinks = keys.sinks.given() ? keys.sinks.address : 0;
  params.q_strides = strides_of(q);
  params.y_strides = strides_of(y);
  params.layers[0] = layer_of(slots);
  params.layers[1] = layer_of(call.kv_layout.layers[static_cast<size_t>(keys.blocks_layer)]);
  params.heads = q.size(1);
  params.k_dim = q.size(0);
  params.v_dim = static_cast<uint32_t>(shape.v_dim);
  params.k_type = *cache_type(kv.k_type);
  params.v_type = *cache_type(kv.v_type);
  params.keys_whole =
      slots.k_element == 0 && whole_rows(kv.k_type, shape.k_dim, slots.k_row) ? 1 : 0;
  params.values_whole = whole_rows(kv.v_type, shape.v_dim, slots.v_row) ? 1 : 0;
  params.window = static_cast<uint32_t>(keys.window);
  params.scale = keys.scale;
  if (keys.chosen.given()) {
    params.chosen = keys.chosen.address;
    params.chosen_stride = keys.chosen.stride(2);
    params.chosen_count = keys.chosen.size(0);
  }
  const bool split = y.dim(2) == pooled_split_rows(y.value->desc, call.tuning);
  params.chunks = call.scratch;
  params.counters = call.counters;
  params.split = split ? 1 : 0;
  if (split) {
    params.result_runs = call.rounded.runs(y);
    params.results = call.rounded.bytes(y);
  }
  call.recorder.launch(
      "pooled_attention", params, {head_blocks(q.dim(1)), y.dim(2), split ? int64_t{kChunks} : 1},
      kPooledThreads, kPooledHeads * round_up<int64_t>(q.dim(0), 4) * int64_t{sizeof(float)});
}

}  // namespace infer::cuda
