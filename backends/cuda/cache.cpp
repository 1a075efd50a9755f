#include "backends/cuda/cache.h"

#include "engine/graph/cache_blocks.h"

namespace infer::cuda {

std::optional<CacheType> cache_type(DType type) {
  switch (type) {
    case DType::f32: return kCacheF32;
    case DType::f16: return kCacheF16;
    case DType::bf16: return kCacheBf16;
    case DType::q8_0: return kCacheQ8_0;
    case DType::q4_0: return kCacheQ4_0;
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

}  // namespace infer::cuda
