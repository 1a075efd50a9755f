// Opens a model of whatever format.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/weights/weight_source.h"

namespace infer {

/// Opens a model in whatever format it is, as the architectures read it: a Hugging Face checkpoint
/// is mapped. `matrices`: the type of matrices (matrix_type.h), or none: as stored.
/// Beside open_model's failures: unsupported naming `architectures` and those known, or what is
/// wanted that cannot be had, or for an adapter; bad_file naming what is missing or wrong.
Result<std::unique_ptr<WeightSource>> open_weights(const std::string& path,
                                                   std::optional<DType> matrices = {});

}  // namespace infer
