// Looks at every number of a model's weights.
#pragma once

#include "engine/weights/weight_source.h"
#include "infer/infer.hpp"

namespace infer {

/// What LoadOptions::check_tensors asks for. Errors: bad_file, which names the tensor and the first
/// number that is NaN or infinite; cancelled, if LoadOptions::progress returns false; those of
/// reading.
Status check_weights(const WeightSource& source, const LoadOptions& options);

}  // namespace infer
