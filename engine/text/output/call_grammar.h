// Grammars that hold the calls of an answer to what the declared tools take.
#pragma once

#include <string>
#include <string_view>

#include "engine/core/status.h"
#include "infer/infer.hpp"

namespace infer {

/// OutputParser::hold_calls().
Result<bool> hold_calls(std::string_view template_source, std::string_view prompt,
                        OutputOptions& output, GenerateOptions& options);

}  // namespace infer
