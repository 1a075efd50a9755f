// Products by cooperative matrices: of tokens of prompts, where the tuning says so.
#pragma once

#include "backends/vulkan/product.h"

namespace infer::vulkan {

/// Whether a node is a product that tokens of prompts have by matrices. Not those of experts, of
/// heads' own matrices, of rows whose results are wanted, nor what chooses experts: a choice has no
/// small errors.
bool uses_matrices(const Graph& graph, const Node& node, Roles roles, const Tuning& tuning);

/// VulkanOp::scratch of a product: for its activations, if it goes through matrices.
int64_t matrix_scratch(const NodeView& node, const Tuning& tuning, Roles roles);

/// The products of the step's tokens from the first of a prompt on.
void record_matrix_product(const NodeCall& call, const ProductCall& product);

}  // namespace infer::vulkan
