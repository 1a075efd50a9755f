#include "backends/vulkan/product.h"

namespace infer::vulkan {

const VulkanOp& matmul_vulkan() {
  static const VulkanOp op{OpId::Matmul, product_supports, record_single_product, product_scratch};
  return op;
}

}  // namespace infer::vulkan
