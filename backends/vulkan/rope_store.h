// RoPE of queries and keys and storing keys and values, in one dispatch.
#pragma once

#include "backends/vulkan/op.h"

namespace infer::vulkan {

struct RopeStoreCall {
  const op::Rope* rope = nullptr;
  int32_t kv_layer = 0;
  Operand q, k, v, table, slots, sequences;
  Operand y;  ///< queries
};
void record_rope_store(const NodeCall& call, const RopeStoreCall& in);

}  // namespace infer::vulkan
