#include "backends/cuda/product.h"

namespace infer::cuda {

const CudaOp& moe_matmul_cuda() {
  static const CudaOp op{.id = OpId::MoeMatmul,
                         .supports = product_supports,
                         .record = record_single_product,
                         .scratch = product_scratch,
                         .takes = product_takes,
                         .record_products = record_products};
  return op;
}

}  // namespace infer::cuda
