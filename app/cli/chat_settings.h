// /set within `infer chat`: how tokens are chosen, from the next answer on.
#pragma once

#include <string>

#include "infer/infer.hpp"

namespace infer::cli {

/// Changes what the flags of the command line in `text` name. Throws Failure.
void change_settings(GenerateOptions& options, const std::string& text, int32_t vocabulary);
/// Prints the flags, and what holds now: as it was set, suggested by the model, or by default.
void show_settings(const GenerateOptions& options, const ModelDescription& model);

}  // namespace infer::cli
