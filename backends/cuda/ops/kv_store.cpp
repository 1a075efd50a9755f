#include "backends/cuda/ops/kv_store.h"

#include <algorithm>

#include "backends/cuda/cache.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const auto layer = static_cast<size_t>(call.params<op::KvStore>().kv_layer);
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const auto store = [&](const Operand& x, DType type, int64_t offset, int64_t stride,
                         bool across) {
    const int64_t units = x.dim(0) / dtype_info(type).block_elements;
    call.recorder.launch("kv_store",
                         KvStoreParams{.step = call.step,
                                       .x = x.address,
                                       .slots = call.inputs[2].address,
                                       .sequences = call.inputs[3].address,
                                       .x_strides = strides_of(x),
                                       .dim = x.size(0),
                                       .kind = static_cast<uint32_t>(at.kind),
                                       .offset = static_cast<uint32_t>(offset),
                                       .stride = static_cast<uint32_t>(stride),
                                       .across = across ? 1u : 0u,
                                       .type = *cache_type(type),
                                       .tokens = static_cast<uint32_t>(at.tokens),
                                       .unused = 0},
                         {div_ceil<int64_t>(units, kStoreThreads), x.dim(1), x.dim(2)},
                         kStoreThreads);
  };
  const KvGeometry& kv = call.graph.kv();
  store(call.inputs[0], kv.k_type, at.k_offset, at.k_row, at.k_element > 0);
  // Values that are part of their keys are stored with them.
  if (at.v_offset != at.k_offset) store(call.inputs[1], kv.v_type, at.v_offset, at.v_row, false);
}

void record_ropes(const NodeCall& call, const RopeStoreCall& in) {
  const KvGeometry& kv = call.graph.kv();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(in.kv_layer)];
  const bool values = at.v_offset != at.k_offset;
  const int64_t heads = in.q.dim(1) + in.k.dim(1) * (values ? 2 : 1);
  const int64_t width = std::max(in.k.dim(0), in.v.dim(0));
  call.recorder.launch("rope_store",
                       RopeStoreParams{.step = call.step,
                                       .q = in.q.address,
                                       .k = in.k.address,
                                       .v = in.v.address,
                                       .table = in.table.address,
                                       .y = in.y.address,
                                       .slots = in.slots.address,
                                       .sequences = in.sequences.address,
                                       .q_strides = strides_of(in.q),
                                       .k_strides = strides_of(in.k),
                                       .v_strides = strides_of(in.v),
                                       .y_strides = strides_of(in.y),
                                       .table_strides = strides_of(in.table),
                                       .kind = static_cast<uint32_t>(at.kind),
                                       .k_offset = static_cast<uint32_t>(at.k_offset),
                                       .v_offset = static_cast<uint32_t>(at.v_offset),
                                       .k_row = static_cast<uint32_t>(at.k_row),
                                       .v_row = static_cast<uint32_t>(at.v_row),
                                       .k_type = *cache_type(kv.k_type),
                                       .v_type = *cache_type(kv.v_type),
                                       .style = static_cast<uint32_t>(in.rope->style),
                                       .pairs = in.table.size(1),
                                       .query_heads = in.q.size(1),
                                       .kv_heads = in.k.size(1),
                                       .k_dim = in.k.size(0),
                                       .v_dim = in.v.size(0),
                                       .across = at.k_element > 0 ? 1u : 0u,
                                       .width = static_cast<uint32_t>(width),
                                       .unused = 0},
                       {div_ceil<int64_t>(heads * width, kRopeStoreThreads), in.q.dim(2), 1},
                       kRopeStoreThreads);
}

}  // namespace

const CudaOp& kv_store_cuda() {
  static const CudaOp op{.id = OpId::KvStore,
                         .supports = cache_supports,
                         .record = record,
                         .cache = CacheUse::writes,
                         .record_ropes = record_ropes};
  return op;
}

}  // namespace infer::cuda
