// The codebooks of the IQ types for shaders, in device memory: u16 arrays one after another, at the
// offsets in glsl/iq.glsl.
#pragma once

#include <cstdint>
#include <vector>

namespace infer::vulkan {

std::vector<uint16_t> iq_tables();

}  // namespace infer::vulkan
