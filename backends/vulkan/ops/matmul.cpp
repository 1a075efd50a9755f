#include "backends/vulkan/product.h"

namespace infer::vulkan {

const VulkanOp& matmul_vulkan() {
  static const VulkanOp op{OpId::Matmul, product_supports, record_single_product};
  return op;
}

}  // namespace infer::vulkan
