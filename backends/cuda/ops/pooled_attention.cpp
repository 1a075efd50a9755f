#include "backends/cuda/ops/pooled_attention.h"

#include "backends/cuda/cache.h"
#include "backends/cuda/op.h"
#include "backends/cuda/pooled.h"

namespace infer::cuda {
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

const TensorDesc& result_of(const NodeView& node) {
  return node.graph.value(node.node.outputs[0]).desc;
}
int64_t counters(const NodeView& node, const Tuning& tuning) {
  return pooled_counters(result_of(node), tuning);
}
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  return pooled_scratch(result_of(node), tuning);
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
