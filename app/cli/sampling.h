// How a token is chosen: the flags of every command that generates.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "infer/infer.hpp"

namespace infer::cli {

/// What was given; read by sampling_options.
struct SamplingArgs {
  SamplingOptions options;
  std::string seed;
  std::vector<std::string> logit_bias;
};

/// -s, --temp, --top-k, --top-p, --min-p, --typical, --repeat-penalty, --repeat-last-n,
/// --presence-penalty, --frequency-penalty, --logit-bias.
void declare_sampling(CLI::App& app, SamplingArgs& args);

/// The options with everything checked that needs no model. Throws Failure (usage).
SamplingOptions sampling_options(const SamplingArgs& args);

/// Throws Failure (usage) if a bias is of a token that the vocabulary does not have.
void require_biased_tokens(const SamplingOptions& options, int32_t vocabulary_size);

}  // namespace infer::cli
