// Types of keys and values that the kernels store and read.
#pragma once

#include <optional>

#include "backends/cuda/cache_types.h"
#include "backends/cuda/op.h"

namespace infer::cuda {

/// Nothing if the type is not supported.
std::optional<CacheType> cache_type(DType type);

/// Fails (unsupported), with the name of the type, if the type of keys or of values is not
/// supported.
Status cache_supports(const NodeView& node);

}  // namespace infer::cuda
