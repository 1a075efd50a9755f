#include "backends/cuda/packing.h"

namespace infer::cuda {

gpu::WeightLayout weight_layout(const TensorDesc& desc) { return gpu::WeightLayout(desc); }

}  // namespace infer::cuda
