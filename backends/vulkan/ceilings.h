// What a device can do at most, measured.
#pragma once

#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {

/// Bytes read and written a second, in GB/s, by copies of more than caches hold; 0 if that fails.
double measure_copy_bandwidth(Context& context);

/// Multiply-accumulates of bytes a second, in 1e9; 0 where there is no instruction for them or a
/// call fails.
double measure_integer_rate(Context& context, Pipelines& pipelines);

}  // namespace infer::vulkan
