#include "backends/vulkan/product.h"

namespace infer::vulkan {
namespace {

void record(const NodeCall& call) {
  const auto& in = call.inputs;
  record_product(call, {in[0], in[1], {}, {}, {}, MatrixOf::by_place});
}

}  // namespace

const VulkanOp& head_matmul_vulkan() {
  static const VulkanOp op{OpId::HeadMatmul, product_supports, record};
  return op;
}

}  // namespace infer::vulkan
