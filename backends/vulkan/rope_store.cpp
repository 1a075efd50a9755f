#include "backends/vulkan/rope_store.h"

#include <algorithm>

#include "backends/vulkan/cache.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

/// ops/rope_store.comp
struct RopeStorePush {
  VkDeviceAddress step, q, k, v, table, y, slots, sequences;
  StridePush q_strides, k_strides, v_strides, y_strides, table_strides;
  uint32_t kind;
  uint32_t k_offset, v_offset;
};

}  // namespace

void record_rope_store(const NodeCall& call, const RopeStoreCall& in) {
  const KvGeometry& kv = call.graph.kv();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(in.kv_layer)];
  // Values that lie in their keys are stored with them.
  const bool values = at.v_offset != at.k_offset;
  const RopeStoreConstants constants{.key_type = *cache_type(kv.k_type),
                                     .value_type = *cache_type(kv.v_type),
                                     .style = static_cast<uint32_t>(in.rope->style),
                                     .pairs = in.table.size(1),
                                     .query_heads = in.q.size(1),
                                     .kv_heads = in.k.size(1),
                                     .key_dim = in.k.size(0),
                                     .value_dim = in.v.size(0),
                                     .key_row = static_cast<uint32_t>(at.k_row),
                                     .value_row = static_cast<uint32_t>(at.v_row),
                                     .across = at.k_element > 0 ? 1u : 0u};
  call.recorder.dispatch("rope_store", constants,
                         RopeStorePush{.step = call.step,
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
                                       .v_offset = static_cast<uint32_t>(at.v_offset)},
                         {div_ceil<int64_t>(std::max(in.k.dim(0), in.v.dim(0)), 64),
                          in.q.dim(1) + in.k.dim(1) * (values ? 2 : 1), in.q.dim(2)});
}

}  // namespace infer::vulkan
