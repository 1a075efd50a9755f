// Models of the Hugging Face hub by their names: -hf and what goes with it.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "hub/pull.h"

namespace infer::cli {

/// -hff and -hft.
void declare_hub_access(Options options, HubArgs& args);
/// These, -hf and --offline. The result is -hf.
Option declare_hub(Options options, HubArgs& args);

/// The name of what is wanted, checked. Throws Failure (usage).
hub::ModelName wanted_of(const HubArgs& args);
/// The path of what -hf names, from the cache; if it is absent, it is downloaded. Empty if -hf is
/// not given. Throws Failure.
std::string path_of_hub(const HubArgs& args, bool quiet);
/// Downloads what is missing of the newest version. Shows how far it is unless `quiet`. Throws
/// Failure.
hub::Pulled pull_model(const hub::ModelName& wanted, const std::string& token, bool quiet);

}  // namespace infer::cli
