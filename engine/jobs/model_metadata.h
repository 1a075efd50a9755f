// Metadata of a model that is to be written again.
#pragma once

#include "engine/core/status.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// A source's metadata with the keys of its vocabulary, if it has one and they are not there yet
/// (a checkpoint's is in files of its own). unsupported where they cannot say what it is.
Result<Metadata> model_metadata(const WeightSource& source);

}  // namespace infer
