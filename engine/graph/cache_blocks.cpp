#include "engine/graph/cache_blocks.h"

#include <utility>

namespace infer {

Status check_blocks(const KvGeometry& geometry) {
  for (const KvLayerShape& shape : geometry.layers) {
    if (shape.state > 0) continue;
    for (const auto& [type, dim] :
         {std::pair{geometry.k_type, shape.k_dim}, {geometry.v_type, shape.v_dim}}) {
      const DTypeInfo& info = dtype_info(type);
      if (dim % info.block_elements == 0) continue;
      return error(StatusCode::unsupported,
                   "a cache of type {} needs heads of a multiple of {} elements, the model has {}",
                   info.ident, info.block_elements, dim);
    }
  }
  return {};
}

}  // namespace infer
