#include "backends/vulkan/product.h"

namespace infer::vulkan {

const VulkanOp& head_matmul_vulkan() {
  static const VulkanOp op{OpId::HeadMatmul, product_supports, record_single_product};
  return op;
}

}  // namespace infer::vulkan
