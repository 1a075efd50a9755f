// The measured limits of a device.
#pragma once

#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {

/// Bytes read and written per second, in GB/s, by copies larger than the caches; 0 on failure.
double measure_copy_bandwidth(Context& context);

/// 10⁹ multiply-accumulates of bytes per second. 0 if the device has no instruction for them, or on
/// failure.
double measure_integer_rate(Context& context, Pipelines& pipelines);

/// The same for the device's cooperative matrices; 0 if it has none.
double measure_matrix_rate(Context& context, Pipelines& pipelines);

}  // namespace infer::vulkan
