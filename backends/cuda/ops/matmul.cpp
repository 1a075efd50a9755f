#include "backends/cuda/product.h"

namespace infer::cuda {

const CudaOp& matmul_cuda() {
  static const CudaOp op{.id = OpId::Matmul,
                         .supports = product_supports,
                         .record = record_single_product,
                         .scratch = product_scratch,
                         .takes = product_takes,
                         .record_products = record_products};
  return op;
}

}  // namespace infer::cuda
