// Options of speculative decoding: --spec, --drafter and --model-draft.
#pragma once

#include "cli/arguments.h"
#include "cli/output.h"

namespace infer::cli {

struct SpeculationArgs {
  std::string mode;
};

void declare_speculation(Options options, SpeculationArgs& args);
/// What the flags mean for loading and generating, before choose_model(). Throws Failure (usage).
void apply_speculation(const SpeculationArgs& args, ModelArgs& model, GenerateOptions& generate);

/// For JSON; null where nothing was measured.
Json speculation_json(const SpeculationStatistics& s);
/// "; drafted 120, accepted 80 (67 %), 1.52x" or nothing: the end of a summary.
std::string speculation_summary(const SpeculationStatistics& s);

}  // namespace infer::cli
