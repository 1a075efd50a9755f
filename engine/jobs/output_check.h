// Jobs that write a model from a model must not write over what they read.
#pragma once

#include <string>

#include "engine/core/status.h"

namespace infer {

/// invalid_argument if `output` is the model at `input`, by whatever name, another part of its
/// split set, or one of the files of the checkpoint that it is or belongs to.
Status check_output(const std::string& input, const std::string& output);

}  // namespace infer
