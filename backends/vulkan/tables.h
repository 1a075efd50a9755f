// The codebooks of the IQ types in device memory, where shaders look entries up: u16 arrays one
// after another, from the places that glsl/iq.glsl names.
#pragma once

#include <cstdint>
#include <vector>

namespace infer::vulkan {

std::vector<uint16_t> iq_tables();

}  // namespace infer::vulkan
