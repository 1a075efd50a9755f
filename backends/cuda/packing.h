// The layout of weights on the device.
#pragma once

#include "backends/gpu/weight_layout.h"

namespace infer::cuda {

gpu::WeightLayout weight_layout(const TensorDesc& desc);

}  // namespace infer::cuda
