#include "backends/vulkan/product.h"

namespace infer::vulkan {
namespace {

void record(const NodeCall& call) {
  const auto& in = call.inputs;
  record_product(call, {in[0], in[1], in[3], in[4], in[2], MatrixOf::by_ids});
}

}  // namespace

const VulkanOp& moe_matmul_vulkan() {
  static const VulkanOp op{OpId::MoeMatmul, product_supports, record};
  return op;
}

}  // namespace infer::vulkan
