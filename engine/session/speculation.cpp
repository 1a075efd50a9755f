#include "engine/session/speculation.h"

#include <algorithm>

#include "engine/spec/block_drafter.h"
#include "engine/spec/head_drafter.h"
#include "engine/spec/model_drafter.h"
#include "engine/spec/ngram_drafter.h"
#include "engine/spec/retokenizing_drafter.h"
#include "engine/spec/shared_cache_drafter.h"
#include "engine/spec/suffix_drafter.h"

namespace infer {
namespace {

/// The most seconds that measuring a model's steps may take.
constexpr double kMeasureSeconds = 0.5;
/// The most sessions whose texts the drafters keep.
constexpr int64_t kMostSessions = 1024;

/// Whether two vocabularies are the same up to their ends: within a family the ends differ, in
/// unused tokens that round up the size.
bool same_vocabulary(const WeightSource& one, const WeightSource& other) {
  const std::vector<std::string>& a = one.tokenizer().tokens;
  const std::vector<std::string>& b = other.tokenizer().tokens;
  const auto common = static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  return std::equal(a.begin(), a.begin() + common, b.begin());
}

/// The cache of a model that drafts, with room for its planned context. A sequence may have
/// `longest` tokens.
Result<std::unique_ptr<KvCache>> create_cache(std::span<Device* const> devices,
                                              const MemoryPlan& plan, int64_t longest, bool reuses,
                                              const GrowCache& grow) {
  INFER_TRY(std::unique_ptr<KvCache> cache,
            KvCache::create(devices, plan.kv_layout, plan.kv_pages, {longest, reuses, {}, 0}));
  if (grow) {
    cache->set_growth(
        [grow, &its = *cache](size_t kind, KvCache::Want want) { return grow(its, kind, want); });
  }
  return cache;
}

Result<std::unique_ptr<Drafter>> load_draft(const OpenedModel& draft, const OpenedModel& main,
                                            std::shared_ptr<const Tokenizer> tokenizer,
                                            const GrowCache& grow) {
  const std::vector<Device*> devices = draft.device_list();
  const PlanRequest& request = draft.request;
  INFER_TRY(std::unique_ptr<Executor> executor,
            Executor::create(*draft.model, *draft.weights, devices, request, draft.plan, {}));
  const int64_t longest = std::min(main.plan.longest, draft.model->info().context);
  INFER_TRY(std::unique_ptr<KvCache> cache,
            create_cache(devices, draft.plan, std::max(draft.plan.context, longest), true, grow));
  INFER_TRY(const StepCosts costs,
            StepCosts::measure(*executor, *cache, request.max_outputs, kMeasureSeconds));
  auto model = std::make_shared<DraftModel>(std::move(executor), std::move(cache),
                                            draft.model->info().vocabulary, request.max_rows,
                                            request.max_outputs, costs);
  if (same_vocabulary(*draft.source, *main.source)) {
    return std::make_unique<ModelDrafter>(std::move(model), main.model->info().vocabulary);
  }
  INFER_TRY(std::shared_ptr<const Tokenizer> own, Tokenizer::create(draft.source->tokenizer()));
  // A model without a vocabulary has no text to exchange.
  INFER_CHECK_R(own->encode("a").has_value() ? Status() : own->encode("a").error());
  INFER_CHECK_R(tokenizer->encode("a").has_value() ? Status() : tokenizer->encode("a").error());
  return std::make_unique<RetokenizingDrafter>(std::move(model), std::move(own),
                                               std::move(tokenizer));
}

/// The heads that draft. They use the model's weights, and perhaps its cache.
Result<std::unique_ptr<Drafter>> load_heads(const char* name, const OpenedModel& main,
                                            const Executor& lender, KvCache& main_cache,
                                            const GrowCache& grow) {
  const std::vector<Device*> devices = main.device_list();
  std::unique_ptr<HeadDrafter> drafter;
  std::unique_ptr<Executor> transitions;  // of the head before
  for (size_t i = main.heads.size(); i-- > 0;) {
    const OpenedModel::Head& head = main.heads[i];
    INFER_TRY(std::unique_ptr<Executor> executor,
              Executor::create(*head.model, main.weights_of(head), devices, head.request, head.plan,
                               {}, &lender));
    const bool blocks = main.heads.front().model->info().block.has_value();
    if (blocks && i > 0) {
      transitions = std::move(executor);
      continue;
    }
    const bool shares = head.model->info().shares_cache;
    std::unique_ptr<KvCache> cache;
    if (!shares) {
      INFER_TRY(cache, create_cache(devices, head.plan, main.plan.longest, false, grow));
    }
    INFER_TRY(const StepCosts costs, StepCosts::measure(*executor, shares ? main_cache : *cache,
                                                        head.request.max_outputs, kMeasureSeconds));
    if (shares) {
      return std::make_unique<SharedCacheDrafter>(name, std::move(executor), main_cache,
                                                  head.request.max_outputs, costs);
    }
    const int64_t sessions = std::min(main.request.sequences, kMostSessions);
    const int64_t vocabulary = main.model->info().vocabulary;
    if (blocks) {
      return std::make_unique<BlockDrafter>(name, std::move(executor), std::move(cache),
                                            head.request.max_rows, head.request.max_outputs,
                                            sessions, costs, vocabulary, std::move(transitions));
    }
    drafter = std::make_unique<HeadDrafter>(name, std::move(executor), std::move(cache),
                                            head.request.max_rows, head.request.max_outputs,
                                            sessions, costs, vocabulary, std::move(drafter));
  }
  return drafter;
}

}  // namespace

std::vector<std::string> drafters_of(const LoadOptions& options, const WeightSource& model) {
  std::vector<std::string> names = options.drafters;
  if (names.empty() && !options.draft_model.empty()) return {"suffix", "model"};
  const bool known = std::ranges::find(names, "mtp") != names.end();
  if (std::erase(names, "auto") > 0 && !known && head_layers(model) > 0) names.emplace_back("mtp");
  return names;
}

DrafterMemory drafter_memory(std::span<const std::string> names, int64_t sessions,
                             const OpenedModel& main) {
  sessions = std::min(sessions, kMostSessions);
  DrafterMemory memory;
  if (std::ranges::find(names, "suffix") != names.end()) {
    memory.bytes += SuffixDrafter::most_bytes(0, sessions);
    memory.token_bytes +=
        SuffixDrafter::most_bytes(1, sessions) - SuffixDrafter::most_bytes(0, sessions);
    memory.grown_bytes +=
        SuffixDrafter::most_bytes(0, sessions, 1) - SuffixDrafter::most_bytes(0, sessions);
  }
  for (const OpenedModel::Head& opened : main.heads) {
    const ModelInfo& head = opened.model->info();
    if (head.shares_cache) {
      memory.bytes += sessions * SharedCacheDrafter::sequence_bytes(head.takes_hidden);
      continue;
    }
    memory.bytes += MainLogits::bytes(head, main.model->info().vocabulary);
    if (head.block) {
      memory.bytes += sessions * BlockDrafter::sequence_bytes(head.takes_hidden);
      memory.token_bytes += sessions * BlockDrafter::kTokenBytes;
      memory.grown_bytes += BlockDrafter::kTokenBytes;
      if (main.heads.size() > 1) memory.bytes += head.vocabulary * int64_t{sizeof(float)};
      break;
    }
    memory.bytes += sessions * HeadDrafter::sequence_bytes(head.takes_hidden);
    memory.token_bytes += sessions * HeadDrafter::kTokenBytes;
    memory.grown_bytes += HeadDrafter::kTokenBytes;
  }
  if (main.heads.empty() && std::ranges::find(names, "model") != names.end()) {
    memory.token_bytes += sessions * RetokenizingDrafter::kTokenBytes;
    memory.grown_bytes += RetokenizingDrafter::kTokenBytes;
  }
  return memory;
}

Result<std::unique_ptr<Speculator>> create_speculator(const OpenedModel& main,
                                                      const OpenedModel* draft, Executor& executor,
                                                      KvCache& cache, const LoadOptions& options,
                                                      std::shared_ptr<const Tokenizer> tokenizer,
                                                      const GrowCache& grow) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  std::vector<std::string> names = drafters_of(options, *main.source);
  if (names.empty()) return nullptr;
  // Drafters that need no model cost nothing, so they come first.
  std::ranges::stable_partition(
      names, [](const std::string& name) { return name != "model" && name != "mtp"; });
  for (const std::string& name : names) {
    if (name == "ngram") {
      drafters.push_back(std::make_unique<NgramDrafter>());
    } else if (name == "suffix") {
      drafters.push_back(std::make_unique<SuffixDrafter>(
          main.plan.context, std::min(main.request.sequences, kMostSessions),
          main.plan.longest - main.plan.context));
    } else if (name == "mtp") {
      if (main.heads.empty()) continue;  // it was not asked for, and cannot be used
      INFER_TRY(std::unique_ptr<Drafter> head, load_heads("mtp", main, executor, cache, grow));
      drafters.push_back(std::move(head));
    } else if (name == "model" && main.has_head_file()) {
      INFER_TRY(std::unique_ptr<Drafter> head, load_heads("model", main, executor, cache, grow));
      drafters.push_back(std::move(head));
    } else if (name == "model" && draft != nullptr) {
      INFER_TRY(std::unique_ptr<Drafter> model, load_draft(*draft, main, tokenizer, grow));
      drafters.push_back(std::move(model));
    } else if (name == "model") {
      return fail(StatusCode::invalid_argument, "the drafter 'model' needs a draft model");
    } else {
      return fail(StatusCode::invalid_argument,
                  "drafter '{}': expected ngram, suffix, mtp, model or auto", name);
    }
  }
  if (drafters.empty()) return nullptr;
  INFER_TRY(const StepCosts costs,
            StepCosts::measure(executor, cache, main.request.max_outputs, kMeasureSeconds));
  return std::make_unique<Speculator>(std::move(drafters), costs);
}

}  // namespace infer
