#include "backends/cuda/ops/pooled_attention.h"

#include "backends/cuda/cache.h"
#include "backends/cuda/op.h"
#include "backends/cuda/ops/attention.h"
#include "backends/gpu/split_rows.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

constexpr int64_t kMostKey = 1024;  ///< elements: queries lie in shared memory

const KvLayerShape& shape_of_slots(const Graph& graph, const Node& node) {
  const auto layer = static_cast<size_t>(std::get<op::PooledAttention>(node.params).kv_layer);
  return graph.kv().layers[layer];
}

Status supports(const NodeView& node) {
  INFER_CHECK(cache_supports(node));
  const KvLayerShape& shape = shape_of_slots(node.graph, node.node);
  if (shape.v_dim <= int64_t{kMostPooledValue} && shape.k_dim <= kMostKey) return {};
  return error(StatusCode::unsupported,
               "keys of {} and values of {} elements; at most {} and {} are supported", shape.k_dim,
               shape.v_dim, kMostKey, kMostPooledValue);
}

PooledLayer layer_of(const KvLayerLayout& at) {
  return {static_cast<uint32_t>(at.kind),     static_cast<uint32_t>(at.k_offset),
          static_cast<uint32_t>(at.v_offset), static_cast<uint32_t>(at.k_row),
          static_cast<uint32_t>(at.v_row),    static_cast<uint32_t>(at.k_element),
          static_cast<uint32_t>(at.tokens),   0};
}

int64_t head_blocks(int64_t heads) { return div_ceil<int64_t>(heads, kPooledHeads); }
/// Rows of a step that are split along the keys: all of them, or some that do not matter.
int64_t split_rows(const TensorDesc& y, const Tuning& tuning) {
  return gpu::split_rows(y, kChunks, tuning.split_rows);
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::PooledAttention>();
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = shape_of_slots(call.graph, call.node);
  const KvLayerLayout& slots = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const KvLayerLayout& blocks = call.kv_layout.layers[static_cast<size_t>(p.pooled_layer)];
  const Operand& q = call.inputs[0];
  const Operand& y = call.outputs[0];
  PooledAttentionParams params{};
  params.step = call.step;
  params.q = q.address;
  params.slots = call.inputs[1].address;
  params.sequences = call.inputs[2].address;
  params.y = y.address;
  params.sinks = call.inputs[3].given() ? call.inputs[3].address : 0;
  params.q_strides = strides_of(q);
  params.y_strides = strides_of(y);
  params.layers[0] = layer_of(slots);
  params.layers[1] = layer_of(blocks);
  params.heads = q.size(1);
  params.k_dim = q.size(0);
  params.v_dim = static_cast<uint32_t>(shape.v_dim);
  params.k_type = *cache_type(kv.k_type);
  params.v_type = *cache_type(kv.v_type);
  params.keys_whole =
      slots.k_element == 0 && whole_rows(kv.k_type, shape.k_dim, slots.k_row) ? 1 : 0;
  params.values_whole = whole_rows(kv.v_type, shape.v_dim, slots.v_row) ? 1 : 0;
  params.window = static_cast<uint32_t>(p.window);
  params.scale = p.scale;
  if (const Operand& chosen = call.inputs[4]; chosen.given()) {
    params.chosen = chosen.address;
    params.chosen_stride = chosen.stride(2);
    params.chosen_count = chosen.size(0);
  }
  const bool split = y.dim(2) == split_rows(y.value->desc, call.tuning);
  params.chunks = call.scratch;
  params.counters = call.counters;
  params.split = split ? 1 : 0;
  call.recorder.launch(
      "pooled_attention", params, {head_blocks(q.dim(1)), y.dim(2), split ? int64_t{kChunks} : 1},
      kPooledThreads, kPooledHeads * round_up<int64_t>(q.dim(0), 4) * int64_t{sizeof(float)});
}

/// One for each block of heads of a row that is split.
int64_t counters(const NodeView& node, const Tuning& tuning) {
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  return head_blocks(y.shape[1]) * split_rows(y, tuning);
}

/// For the chunks of rows that are split.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  return gpu::chunk_bytes(y, kChunks) * split_rows(y, tuning);
}

}  // namespace

const CudaOp& pooled_attention_cuda() {
  static const CudaOp op{.id = OpId::PooledAttention,
                         .supports = supports,
                         .record = record,
                         .scratch = scratch,
                         .cache = CacheUse::reads,
                         .counters = counters};
  return op;
}

}  // namespace infer::cuda
