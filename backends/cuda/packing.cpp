#include "backends/cuda/packing.h"

namespace infer::cuda {

gpu::WeightLayout layout_of(const TensorDesc& desc) { return gpu::WeightLayout(desc); }

}  // namespace infer::cuda
