// The models that are built into the program: a small chat model, and a smaller one with the same
// vocabulary that drafts for it (tools/demo_model makes them).
#pragma once

#include <string>

#include "infer/status.hpp"

namespace infer::demo {

/// A path from which the library reads the model, valid as long as the process. Fails with io where
/// the system has no files in memory.
Result<std::string> model_path();
Result<std::string> draft_path();

}  // namespace infer::demo
