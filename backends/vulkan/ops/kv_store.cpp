#include "backends/vulkan/cache.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, slots, sequences;
  StridePush x_strides;
  uint32_t dim;
  uint32_t kind;
  uint32_t offset;
  uint32_t stride;
  uint32_t element;
  uint32_t tokens;
};

void record(const NodeCall& call) {
  const auto layer = static_cast<size_t>(call.params<op::KvStore>().kv_layer);
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const auto store = [&](const Operand& x, DType type, int64_t offset, int64_t stride,
                         int64_t element) {
    const KvStoreConstants constants{.type = *cache_type(type)};
    const int64_t units = x.dim(0) / dtype_info(type).block_elements;
    call.recorder.dispatch("kv_store", constants,
                           Push{.step = call.step,
                                .x = x.address,
                                .slots = call.inputs[2].address,
                                .sequences = call.inputs[3].address,
                                .x_strides = strides_of(x),
                                .dim = x.size(0),
                                .kind = static_cast<uint32_t>(at.kind),
                                .offset = static_cast<uint32_t>(offset),
                                .stride = static_cast<uint32_t>(stride),
                                .element = static_cast<uint32_t>(element),
                                .tokens = static_cast<uint32_t>(at.tokens)},
                           {div_ceil<int64_t>(units, 64), x.dim(1), x.dim(2)});
  };
  const KvGeometry& kv = call.graph.kv();
  store(call.inputs[0], kv.k_type, at.k_offset, at.k_row, at.k_element);
  // Values that lie in their keys are stored with them.
  if (at.v_offset != at.k_offset) store(call.inputs[1], kv.v_type, at.v_offset, at.v_row, 0);
}

}  // namespace

const VulkanOp& kv_store_vulkan() {
  static const VulkanOp op{OpId::KvStore, cache_supports, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::vulkan
