// The codebooks of the IQ types for kernels, in device memory: u16 arrays one after another.
// Kernels know their offsets (vulkan/glsl/iq.glsl).
#pragma once

#include <cstdint>
#include <vector>

namespace infer::gpu {

std::vector<uint16_t> iq_tables();

}  // namespace infer::gpu
