// Which device computes what: -ngl, --cpu-moe, --n-cpu-moe, -ot.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "infer/infer.hpp"

namespace infer::cli {

struct PlacementArgs {
  std::string gpu_layers;  ///< of load_options.def, as n_cpu_moe
  bool cpu_moe = false;
  std::string n_cpu_moe;
  std::vector<std::string> overrides;  ///< "PATTERN=DEVICE,PATTERN=DEVICE"
};

/// Declares --cpu-moe and -ot; load_options.def has the others.
void declare_placement(Options options, PlacementArgs& args);
/// Checks the arguments and sets the options of loading. Throws Failure (usage).
void apply_placement(const PlacementArgs& args, LoadOptions& load);

/// What would fit in place of options that do not, as the end of a message: "; with … it fits".
std::string fitting_options(const std::string& path, const LoadOptions& options);

}  // namespace infer::cli
