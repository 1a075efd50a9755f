#include "backends/cuda/product.h"

namespace infer::cuda {

const CudaOp& head_matmul_cuda() {
  static const CudaOp op{.id = OpId::HeadMatmul,
                         .supports = product_supports,
                         .record = record_single_product,
                         .takes = product_takes,
                         .record_products = record_products};
  return op;
}

}  // namespace infer::cuda
