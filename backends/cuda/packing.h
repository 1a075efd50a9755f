// The layout of weights on the device.
#pragma once

#include "backends/gpu/weight_layout.h"

namespace infer::cuda {

gpu::WeightLayout layout_of(const TensorDesc& desc);

}  // namespace infer::cuda
