#include "backends/vulkan/cache.h"

#include "engine/graph/cache_blocks.h"

namespace infer::vulkan {

std::optional<uint32_t> cache_type(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f16: return 1;
    case DType::bf16: return 2;
    case DType::q8_0: return 3;
    case DType::q4_0: return 4;
    default: return std::nullopt;
  }
}

Status cache_supports(const NodeView& node) {
  for (const DType type : {node.graph.kv().k_type, node.graph.kv().v_type}) {
    if (cache_type(type)) continue;
    return error(StatusCode::unsupported,
                 "a cache of type {} is not supported; expected f32, f16, bf16, q8_0 or q4_0",
                 dtype_info(type).ident);
  }
  return check_blocks(node.graph.kv());
}

}  // namespace infer::vulkan
