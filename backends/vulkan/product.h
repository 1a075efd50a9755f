// Products of weights with activations: what matmul, moe_matmul and head_matmul share, and the
// operations that are fused into them.
#pragma once

#include <vector>

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// How the matrix of a weight is chosen for a column.
enum class MatrixOf : uint32_t { only, by_ids, by_place, by_groups };

/// Whether a product with this many rows groups its columns by expert first.
bool product_groups(const Tuning& tuning, int64_t rows, int64_t experts);
/// VulkanOp::scratch of a product with experts: memory for their groups.
int64_t expert_scratch(const NodeView& node, const Tuning& tuning, Roles roles);

/// Unsupported if there are no shaders for the weight's type.
Status product_supports(const NodeView& node);

/// A weight and its result.
struct ProductWeight {
  Operand w, bias, scale, y;
};

/// One dispatch: weights of the same type and K, multiplied with the same activations.
struct ProductCall {
  std::vector<ProductWeight> weights;
  Operand x, ids;
  MatrixOf matrix = MatrixOf::only;
  const op::RmsNorm* norm = nullptr;  ///< of x, first; with the next weight if it has data
  Operand norm_weight;
  const op::Glu* glu = nullptr;  ///< of the results of two weights, written to y of the first
  const op::Add* add = nullptr;  ///< of the residual and the result of the weight, written to y
  Operand residual;
};
void record_product(const NodeCall& call, const ProductCall& product);

/// One of the three operations as a call. What is fused with it is added later.
ProductCall product_of(const Node& node, std::span<const Operand> inputs,
                       std::span<const Operand> outputs);
void record_single_product(const NodeCall& call);

/// Whether a product of k elements can compute the norm before it.
bool product_can_norm(const PhysicalDevice& device, int64_t k);

/// Offsets of planes 1 and up of a weight, in units of 16 bytes.
std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight);

}  // namespace infer::vulkan
