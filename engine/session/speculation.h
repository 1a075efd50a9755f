// The drafters that the options ask for.
#pragma once

#include <functional>
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

/// What drafters with these names keep for a model and its heads, in an engine in which so many
/// sessions generate at once.
DrafterMemory drafter_memory(std::span<const std::string> names, int64_t sessions,
                             const OpenedModel& main);

/// What a cache that grows calls where it has too few pages of a kind (KvCache::set_growth).
using GrowCache = std::function<bool(KvCache& cache, size_t kind, KvCache::Want want)>;

/// Loads the model and the layers that draft, if there are any, and measures all. Null if nothing
/// drafts. `grow`: for their caches; empty if these do not grow.
/// invalid_argument for drafters that do not exist, or as loading fails.
Result<std::unique_ptr<Speculator>> create_speculator(const OpenedModel& main,
                                                      const OpenedModel* draft, Executor& executor,
                                                      KvCache& cache, const LoadOptions& options,
                                                      std::shared_ptr<const Tokenizer> tokenizer,
                                                      const GrowCache& grow);

}  // namespace infer
