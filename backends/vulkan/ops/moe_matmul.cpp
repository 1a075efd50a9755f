#include "backends/vulkan/product.h"

namespace infer::vulkan {

const VulkanOp& moe_matmul_vulkan() {
  static const VulkanOp op{OpId::MoeMatmul, product_supports, record_single_product,
                           product_scratch};
  return op;
}

}  // namespace infer::vulkan
