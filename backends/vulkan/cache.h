// Types of keys and values that the shaders of this back end store and read.
#pragma once

#include <optional>

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// The number of a type in glsl/cache.glsl; nothing if it is not supported.
std::optional<uint32_t> cache_type(DType type);

/// Fails (unsupported), with the name of the type, if the type of keys or of values is not
/// supported.
Status cache_supports(const NodeView& node);

}  // namespace infer::vulkan
