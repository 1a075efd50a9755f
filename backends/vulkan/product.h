// Products of weights with activations: what matmul, moe_matmul and head_matmul share, and what is
// fused into them.
#pragma once

#include <vector>

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// Which of a weight's matrices meets a column.
enum class MatrixOf : uint32_t { only, by_ids, by_place, by_groups };

/// Whether the columns of a product with so many rows are grouped by experts first.
bool product_groups(const Tuning& tuning, int64_t rows, int64_t experts);
/// VulkanOp::scratch of a product with experts: for their groups.
int64_t expert_scratch(const NodeView& node, const Tuning& tuning, Roles roles);

/// Unsupported where there are no shaders for the weight's type.
Status product_supports(const NodeView& node);

/// A weight and what it makes.
struct ProductWeight {
  Operand w, bias, scale, y;
};

/// One dispatch: weights of one type and one K that meet the same activations.
struct ProductCall {
  std::vector<ProductWeight> weights;
  Operand x, ids;
  MatrixOf matrix = MatrixOf::only;
  const op::RmsNorm* norm = nullptr;  ///< of x before, with this weight where it is given
  Operand norm_weight;
  const op::Glu* glu = nullptr;  ///< of two weights' results, into the first one's y
  const op::Add* add = nullptr;  ///< of the residual and the one weight's result, into its y
  Operand residual;
};
void record_product(const NodeCall& call, const ProductCall& product);

/// One of the three operations as a call of its own, to be extended by what is fused with it.
ProductCall product_of(const Node& node, std::span<const Operand> inputs,
                       std::span<const Operand> outputs);
void record_single_product(const NodeCall& call);

/// Whether a product of k elements can have a norm before it.
bool product_can_norm(const PhysicalDevice& device, int64_t k);

/// Offsets of planes 1 and up of a weight, in units of 16 bytes.
std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight);

}  // namespace infer::vulkan
