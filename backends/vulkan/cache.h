// Types of keys and values that the shaders of this back end store and read.
#pragma once

#include <optional>

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// As glsl/cache.glsl numbers them; none: not supported.
std::optional<uint32_t> cache_type(DType type);

/// Unsupported, naming the type, where keys or values are of another.
Status cache_supports(const NodeView& node);

}  // namespace infer::vulkan
