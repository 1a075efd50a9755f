#include "backends/vulkan/product.h"

namespace infer::vulkan {
namespace {

void record(const NodeCall& call) {
  const auto& in = call.inputs;
  record_product(call, {in[0], in[1], in[2], in[3], {}, MatrixOf::only});
}

}  // namespace

const VulkanOp& matmul_vulkan() {
  static const VulkanOp op{OpId::Matmul, product_supports, record};
  return op;
}

}  // namespace infer::vulkan
