// How a token is chosen: the flags of every command that generates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "infer/infer.hpp"

namespace infer::cli {

/// What was given; read by sampling_options.
struct SamplingArgs {
  SamplingOptions options;
  std::string seeds;
  std::vector<std::string> logit_bias;
  std::vector<std::string> dry_breakers;
  std::string samplers;
};

/// -s, --temp, --top-k and all the others. `takes_several_seeds`: if not, the command calls
/// require_one_seed().
void declare_sampling(Options options, SamplingArgs& args, bool takes_several_seeds = false);

/// The seeds given, at least one; nothing stands for a fresh one. Throws Failure (usage).
std::vector<std::optional<uint64_t>> seeds_of(const SamplingArgs& args);
/// For commands that make one text. Throws Failure (usage) if several seeds were given.
void require_one_seed(const SamplingArgs& args);
/// The options with everything checked that needs no model. Throws Failure (usage).
SamplingOptions sampling_options(const SamplingArgs& args);

/// What a text may be held to.
struct ConstraintArgs {
  std::string grammar_file;
  std::string schema_file;
  std::string grammar;
  std::string schema;
};
/// --grammar, --grammar-file, -j/--json-schema, --json-schema-file.
void declare_constraint(Options options, ConstraintArgs& args);
/// Reads the files. Throws Failure.
void read_constraint(const ConstraintArgs& args, GenerateOptions& options);

/// Throws the Failure of a generation, which names the file of the grammar or schema if that is
/// wrong.
[[noreturn]] void fail_generation(const ConstraintArgs& args, const Status& status);

/// Throws Failure (usage) if a bias is of a token that the vocabulary does not have.
void require_biased_tokens(const SamplingOptions& options, int32_t vocabulary_size);

}  // namespace infer::cli
