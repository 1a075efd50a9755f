// Products by cooperative matrices, for the tokens of prompts, if the tuning says so.
#pragma once

#include "backends/vulkan/product.h"

namespace infer::vulkan {

/// Whether a node is a product that uses matrices for tokens of prompts. Not products of experts,
/// of matrices by head, or of rows whose results are wanted. Nor the product that chooses experts,
/// since a small error may choose another expert.
bool uses_matrices(const Graph& graph, const Node& node, Roles roles, const Tuning& tuning);

/// VulkanOp::scratch of a product that uses matrices: memory for its activations.
int64_t matrix_scratch(const NodeView& node, const Tuning& tuning, Roles roles);

/// Records the products of the tokens of prompts, which come last in a step.
void record_matrix_product(const NodeCall& call, const ProductCall& product);

}  // namespace infer::vulkan
