// The drafters that the options ask for.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/session/opened_model.h"
#include "engine/spec/speculator.h"
#include "engine/text/tokenizer.h"

namespace infer {

/// LoadOptions::drafters, or what they are by default. "auto" becomes "mtp" if this model has such
/// layers, otherwise nothing.
std::vector<std::string> drafters_of(const LoadOptions& options, const WeightSource& model);

/// What drafters keep of texts, besides the model that drafts.
struct DrafterMemory {
  int64_t bytes = 0;        ///< however long the context is
  int64_t token_bytes = 0;  ///< for each token of the context
};
/// Of drafters with these names for a model and its heads, in an engine in which so many sessions
/// generate at once.
DrafterMemory drafter_memory(std::span<const std::string> names, int64_t sessions,
                             const OpenedModel& main);

/// Loads the model and the layers that draft, if there are any, and measures all. Null if nobody is
/// to draft.
/// invalid_argument for drafters that do not exist, or as loading fails.
Result<std::unique_ptr<Speculator>> create_speculator(const OpenedModel& main,
                                                      const OpenedModel* draft, Executor& executor,
                                                      KvCache& cache, const LoadOptions& options,
                                                      std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace infer
