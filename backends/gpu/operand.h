// The tensors of a node as a back end for GPUs hands them to its operations.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"
#include "engine/graph/graph.h"

namespace infer::gpu {

/// A tensor of a node, and its address on the device. No value: an optional input that is absent.
struct Operand {
  const Value* value = nullptr;
  uint64_t address = 0;

  bool given() const { return value != nullptr; }
  int64_t dim(size_t i) const { return value->desc.shape[i]; }
  uint32_t size(size_t i) const { return static_cast<uint32_t>(value->desc.shape[i]); }
  /// For values of four bytes: the stride of a dimension, in elements.
  uint32_t stride(size_t i) const { return static_cast<uint32_t>(value->desc.stride[i] / 4); }
};

/// Whether kernels can load keys or values of `dim` elements, or queries, four elements at once.
bool whole_rows(DType type, int64_t dim, int64_t row_bytes);

/// Groups of threads of a dispatch: workgroups, or blocks.
struct Groups {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
};

/// What an operation does with the cache of its layer (cache_layer).
enum class CacheUse : uint8_t { none, reads, writes };

ShapePush shape_of(const Operand& result);
StridePush strides_of(const Operand& operand);
/// Groups of `threads` elements along d0, one for each (d1, row).
Groups elements_of(const Operand& result, int64_t threads = 64);

}  // namespace infer::gpu
