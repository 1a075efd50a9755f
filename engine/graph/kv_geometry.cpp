#include "engine/graph/kv_geometry.h"

#include "engine/core/checked.h"

namespace infer {
namespace {

int64_t stored_bytes(DType type, int64_t elements) {
  const DTypeInfo& info = dtype_info(type);
  return div_ceil<int64_t>(elements, info.block_elements) * info.block_bytes;
}

}  // namespace

KvLayout canonical_kv_layout(const KvGeometry& geometry) {
  constexpr int64_t kAlign = 64;
  KvLayout layout;
  for (const KvLayerShape& shape : geometry.layers) {
    KvLayerLayout layer;
    layer.k_row = stored_bytes(geometry.k_type, shape.k_dim);
    layer.v_row = stored_bytes(geometry.v_type, shape.v_dim);
    layer.k_offset = layout.page_bytes;
    if (shape.v_in_k && geometry.k_type == geometry.v_type &&
        shape.v_dim % dtype_info(geometry.v_type).block_elements == 0) {
      layer.v_row = layer.k_row;
      layer.v_offset = layer.k_offset;
      layout.page_bytes =
          round_up(layer.k_offset + layer.k_row * kPageTokens * shape.heads, kAlign);
      layout.layers.push_back(layer);
      continue;
    }
    layer.v_offset = round_up(layer.k_offset + layer.k_row * kPageTokens * shape.heads, kAlign);
    layout.page_bytes = round_up(layer.v_offset + layer.v_row * kPageTokens * shape.heads, kAlign);
    layout.layers.push_back(layer);
  }
  return layout;
}

}  // namespace infer
