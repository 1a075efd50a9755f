// Jobs that write a model from a model must not overwrite their input.
#pragma once

#include <string>

#include "engine/core/status.h"

namespace infer {

/// Fails (invalid_argument) if `output` is the model at `input` under any name, another part of the
/// same split model, or a file of the same checkpoint.
Status check_output(const std::string& input, const std::string& output);

}  // namespace infer
