// Products of weights with activations: what matmul, moe_matmul and head_matmul share, and the
// operations that are fused into them.
#pragma once

#include <array>

#include "backends/gpu/calls.h"
#include "backends/vulkan/op.h"

namespace infer::vulkan {

using gpu::MatrixOf;
using gpu::product_of;
using gpu::ProductCall;
using gpu::ProductWeight;

/// Whether a product with this many rows groups its columns by expert first.
bool product_groups(const Tuning& tuning, int64_t rows, int64_t experts);
/// VulkanOp::scratch of a product with experts: memory for their groups.
int64_t expert_scratch(const NodeView& node, const Tuning& tuning, Roles roles);

/// Unsupported if there are no shaders for the weight's type.
Status product_supports(const NodeView& node);

void record_product(const NodeCall& call, const ProductCall& product);

/// One of the three operations alone.
void record_single_product(const NodeCall& call);

/// Whether a product of k elements can compute the norm before it.
bool product_can_norm(const PhysicalDevice& device, int64_t k);

/// Offsets of planes 1 and up of a weight, in units of 16 bytes.
std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight);

}  // namespace infer::vulkan
