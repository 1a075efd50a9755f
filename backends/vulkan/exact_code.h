// Makes drivers compute the arithmetic of shaders exactly as it is written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace infer::vulkan {

/// Marks every floating-point operation of a SPIR-V module NoContraction, as if all variables were
/// `precise`. Then no driver joins or reorders operations, and different shaders with the same sums
/// give the same bits. (glslc keeps `precise`, except where its optimiser unrolls loops.)
/// Source: the SPIR-V specification, 2.3 (layout), 3.20 (decorations).
std::vector<uint32_t> exact_code(std::span<const uint32_t> code);

}  // namespace infer::vulkan
