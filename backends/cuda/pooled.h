// Attention to a window of slots and a list of blocks (ops/pooled_attention.h), as several
// operations launch it.
#pragma once

#include "backends/cuda/op.h"

namespace infer::cuda {

/// What rows see: the last `window` slots of a layer, and blocks of another one, which may be the
/// same: those of a list, or all.
struct PooledKeys {
  int32_t slots_layer = 0;
  int32_t blocks_layer = 0;
  int32_t window = 0;
  float scale = 1;
  Operand sinks, chosen;
};

/// Whether there is a kernel for keys and values of this size.
bool pooled_takes(const KvLayerShape& shape);
/// Rows of a step that are split along the keys: all of them, or some that do not matter.
int64_t pooled_split_rows(const TensorDesc& y, const Tuning& tuning);
/// Bytes of work space, and words of NodeCall::counters, of a node whose result is y.
int64_t pooled_scratch(const TensorDesc& y, const Tuning& tuning);
int64_t pooled_counters(const TensorDesc& y, const Tuning& tuning);

/// Attention of the node's queries, its first input, whose slots and sequences are the next two.
void record_pooled(const NodeCall& call, const PooledKeys& keys);

}  // namespace infer::cuda
