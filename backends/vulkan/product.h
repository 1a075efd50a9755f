// Products of weights with activations: what matmul, moe_matmul and head_matmul share.
#pragma once

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// Which of a weight's matrices meets a column.
enum class MatrixOf : uint32_t { only, by_ids, by_place };

/// Unsupported where the shader of the type is missing.
Status product_supports(const NodeView& node);

struct ProductInputs {
  Operand x, w, bias, scale, ids;
  MatrixOf matrix = MatrixOf::only;
};
void record_product(const NodeCall& call, const ProductInputs& in);

/// Offsets of planes 1 and up of a weight, in units of 16 bytes.
std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight);

}  // namespace infer::vulkan
