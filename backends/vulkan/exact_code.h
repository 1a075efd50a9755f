// The arithmetic of shaders as it is written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace infer::vulkan {

/// SPIR-V in which every floating-point operation is marked NoContraction, as if all variables were
/// `precise`: no driver joins operations or changes their order, so that several shaders with the
/// same sums get the same bits. Source: the SPIR-V specification, 2.3 (layout), 3.20 (decorations).
std::vector<uint32_t> exact_code(std::span<const uint32_t> code);

}  // namespace infer::vulkan
