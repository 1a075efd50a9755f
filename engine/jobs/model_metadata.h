// Metadata for writing a model again.
#pragma once

#include "engine/core/status.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// The metadata of a source, with the keys of its vocabulary added if they are missing (a
/// checkpoint has its vocabulary in other files). Errors: unsupported if GGUF's keys cannot
/// describe it.
Result<Metadata> model_metadata(const WeightSource& source);

}  // namespace infer
