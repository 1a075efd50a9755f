// The models that are built into the program: a small chat model, and a smaller one with the same
// vocabulary that drafts for it (tools/demo_model makes them).
#pragma once

#include <string>

namespace infer::demo {

/// A path from which the library reads the model (memory_model()).
std::string model_path();
std::string draft_path();

}  // namespace infer::demo
