// Storing keys or values in their pages, and rope of queries and keys with both stores in one
// launch.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr int kStoreThreads = 64;
inline constexpr int kRopeStoreThreads = 256;

/// A thread stores an element, or a block of a quantised type.
struct KvStoreParams {
  uint64_t step, x, slots, sequences;
  gpu::StridePush x_strides;
  uint32_t dim;     ///< elements of a key or value
  uint32_t kind;    ///< of pages
  uint32_t offset;  ///< of the layer in a page, in bytes
  uint32_t stride;  ///< bytes of a key or value
  uint32_t across;  ///< 1: keys are transposed (KvLayerLayout::k_element)
  uint32_t type;    ///< CacheType
  uint32_t tokens;  ///< of a block that has one key (KvLayerShape)
  uint32_t unused;
};
static_assert(sizeof(KvStoreParams) == 72);

/// A thread computes an element of a query, or stores an element or a block of a key or value.
/// Grid: all of a row, the heads of queries, keys and values one after another, `width` threads a
/// head; rows along y.
struct RopeStoreParams {
  uint64_t step, q, k, v, table, y, slots, sequences;
  gpu::StridePush q_strides, k_strides, v_strides, y_strides, table_strides;
  uint32_t kind;
  uint32_t k_offset, v_offset, k_row, v_row;  ///< bytes
  uint32_t k_type, v_type;                    ///< CacheType
  uint32_t style;                             ///< op::Rope::Style
  uint32_t pairs;
  uint32_t query_heads, kv_heads;
  uint32_t k_dim, v_dim;
  uint32_t across;  ///< as above
  uint32_t width;
  uint32_t unused;
};
static_assert(sizeof(RopeStoreParams) == 168);

}  // namespace infer::cuda
