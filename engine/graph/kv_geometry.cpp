#include "engine/graph/kv_geometry.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer {
namespace {

int64_t stored_bytes(DType type, int64_t elements) {
  const DTypeInfo& info = dtype_info(type);
  return div_ceil<int64_t>(elements, info.block_elements) * info.block_bytes;
}

int32_t kind_of(KvLayout& layout, const KvLayerShape& shape) {
  const auto found = std::ranges::find_if(layout.kinds, [&](const KvKind& kind) {
    return kind.window == shape.window && kind.place == shape.place &&
           kind.state == (shape.state > 0);
  });
  const auto kind = static_cast<int32_t>(found - layout.kinds.begin());
  if (found == layout.kinds.end()) {
    layout.kinds.push_back({shape.window, 0, shape.place, shape.state > 0});
  }
  return kind;
}

}  // namespace

KvLayout canonical_kv_layout(const KvGeometry& geometry) {
  constexpr int64_t kAlign = 64;
  KvLayout layout;
  for (const KvLayerShape& shape : geometry.layers) {
    KvLayerLayout layer;
    layer.kind = kind_of(layout, shape);
    int64_t& page_bytes = layout.kinds[static_cast<size_t>(layer.kind)].page_bytes;
    if (shape.state > 0) {
      layer.k_offset = layer.v_offset = page_bytes;
      page_bytes = round_up(page_bytes + shape.state * int64_t{sizeof(float)}, kAlign);
      layout.layers.push_back(layer);
      continue;
    }
    layer.k_row = stored_bytes(geometry.k_type, shape.k_dim);
    layer.v_row = stored_bytes(geometry.v_type, shape.v_dim);
    layer.k_offset = page_bytes;
    layer.tokens = shape.tokens;
    layer.rows = div_ceil<int64_t>(kPageTokens, shape.tokens);
    const int64_t rows = layer.rows * shape.heads;
    if (shape.v_in_k && geometry.k_type == geometry.v_type &&
        shape.v_dim % dtype_info(geometry.v_type).block_elements == 0) {
      layer.v_row = layer.k_row;
      layer.v_offset = layer.k_offset;
      page_bytes = round_up(layer.k_offset + layer.k_row * rows, kAlign);
      layout.layers.push_back(layer);
      continue;
    }
    const DTypeInfo& k_type = dtype_info(geometry.k_type);
    if (k_type.block_elements == 1 && shape.tokens == 1) layer.k_element = k_type.block_bytes;
    layer.v_offset = round_up(layer.k_offset + layer.k_row * rows, kAlign);
    page_bytes = round_up(layer.v_offset + layer.v_row * rows, kAlign);
    layout.layers.push_back(layer);
  }
  return layout;
}

int64_t conv_state(int64_t taps, int64_t channels) {
  return round_up((taps - 1) * channels, kStatePad);
}

int64_t scan_state(int64_t heads, int64_t rows, int64_t columns) {
  return heads * rows * round_up(columns, kStatePad);
}

int64_t KvKind::table_pages(int64_t tokens) const {
  if (state) return tokens > 0 ? 1 : 0;
  return div_ceil<int64_t>(tokens, kPageTokens);
}

int64_t kv_pages(const KvKind& kind, int64_t context, int64_t sequences, int64_t rows) {
  const int64_t all = div_ceil<int64_t>(context, kPageTokens);
  if (kind.state) {
    // One for each sequence, and as many checkpoints again and one for many tokens of context.
    constexpr int64_t kFewest = 4;
    constexpr int64_t kMost = 16;
    constexpr int64_t kTokens = 8192;
    return std::min(all, sequences + std::clamp(sequences, kFewest, kMost) + context / kTokens);
  }
  if (kind.window == 0) return all;
  // The window, what may be taken back and a step's rows, which need not begin with a page.
  const int64_t each = div_ceil<int64_t>(kind.window + kKvRollback + rows, kPageTokens) + 1;
  return std::min(all, each * sequences);
}

int64_t kv_bytes(const KvLayout& layout, int64_t context, int64_t sequences, int64_t rows) {
  int64_t bytes = 0;
  for (const KvKind& kind : layout.kinds) {
    bytes += kind.page_bytes * kv_pages(kind, context, sequences, rows);
  }
  return bytes;
}

}  // namespace infer
