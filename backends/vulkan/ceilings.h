// The measured limits of a device.
#pragma once

#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {

/// Bytes read or written per second, in GB/s, of more than the caches hold: the better of copies
/// and of a shader that reads. 0 on failure.
double measure_bandwidth(Context& context, Pipelines& pipelines);

/// 10⁹ multiply-accumulates of bytes per second. 0 if the device has no instruction for them, or on
/// failure.
double measure_integer_rate(Context& context, Pipelines& pipelines);

/// The same for the device's cooperative matrices; 0 if it has none.
double measure_matrix_rate(Context& context, Pipelines& pipelines);

}  // namespace infer::vulkan
