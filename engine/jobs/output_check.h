// Jobs that write a file must not overwrite what they read.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/core/status.h"

namespace infer {

/// Fails (invalid_argument) if `output` is one of the files at `inputs` under any name, another
/// part of the same split model, or a file of the same checkpoint. Empty inputs are none.
Status check_output(std::initializer_list<std::string_view> inputs, const std::string& output);

}  // namespace infer
