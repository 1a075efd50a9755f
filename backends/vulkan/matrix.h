// Products by cooperative matrices: of tokens of prompts, where the tuning says so.
#pragma once

#include "backends/vulkan/product.h"

namespace infer::vulkan {

/// Whether a node is a product that tokens of prompts have by matrices. Not those of experts, of
/// heads' own matrices, of rows whose results are wanted, nor what chooses experts: a choice has no
/// small errors.
bool uses_matrices(const Graph& graph, const Node& node, Roles roles, const Tuning& tuning);

/// Bytes of work space for the activations of a segment's products, one at a time.
int64_t matrix_scratch_bytes(const Segment& segment, const PhysicalDevice& device,
                             const Tuning& tuning);

/// The products of the step's tokens from the first of a prompt on.
void record_matrix_product(const NodeCall& call, const ProductCall& product);

}  // namespace infer::vulkan
