// Attention to a window of slots and a list of blocks (ops/pooled_attention.comp), as several
// operations record it.
#pragma once

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// What rows see: the last `window` slots of a layer, and blocks of another one, which may be the
/// same: those of a list, or all.
struct PooledKeys {
  int32_t slots_layer = 0;
  int32_t blocks_layer = 0;
  int32_t window = 0;
  float scale = 1;
  Operand sinks, chosen;
};

// What queries take of shared memory, and values of registers, on every device.
inline constexpr int64_t kMostPooledKey = 1024;
inline constexpr int64_t kMostPooledValue = 1024;

/// Whether the shader takes keys and values of this size.
bool pooled_takes(const KvLayerShape& shape);
/// Bytes of work space of a node whose result is y.
int64_t pooled_scratch(const TensorDesc& y, const Tuning& tuning);

/// Attention of the node's queries, its first input, whose slots and sequences are the next two.
void record_pooled(const NodeCall& call, const PooledKeys& keys);

}  // namespace infer::vulkan
