#include "engine/session/speculation.h"

#include <algorithm>

#include "engine/spec/model_drafter.h"
#include "engine/spec/ngram_drafter.h"
#include "engine/spec/suffix_drafter.h"

namespace infer {
namespace {

/// What measuring a model's steps may take, in seconds.
constexpr double kMeasureSeconds = 0.5;

Result<std::unique_ptr<Drafter>> load_draft(const OpenedModel& draft, int64_t vocabulary) {
  Device& device = *draft.device;
  const PlanRequest& request = draft.request;
  INFER_TRY(std::unique_ptr<Executor> executor,
            Executor::create(*draft.model, *draft.weights, device, request, draft.plan, {}));
  INFER_TRY(std::unique_ptr<KvCache> cache,
            KvCache::create(device, draft.plan.kv_layout, draft.plan.kv_pages,
                            {draft.plan.context, true, {}, 0}));
  INFER_TRY(const StepCosts costs,
            StepCosts::measure(*executor, *cache, request.max_outputs, kMeasureSeconds));
  auto model = std::make_shared<DraftModel>(std::move(executor), std::move(cache),
                                            draft.model->info().vocabulary, request.max_rows,
                                            request.max_outputs, costs);
  return std::make_unique<ModelDrafter>(std::move(model), vocabulary);
}

}  // namespace

std::vector<std::string> drafters_of(const LoadOptions& options) {
  if (!options.drafters.empty() || options.draft_model.empty()) return options.drafters;
  return {"suffix", "model"};
}

Status check_drafts_for(const OpenedModel& draft, const OpenedModel& main) {
  const std::vector<std::string>& drafted = draft.source->tokenizer().tokens;
  const std::vector<std::string>& tokens = main.source->tokenizer().tokens;
  // Vocabularies of one family differ at their ends, in unused tokens that round up their size.
  const size_t common = std::min(drafted.size(), tokens.size());
  const auto differs = std::mismatch(drafted.begin(), drafted.begin() + ptrdiff_t(common),
                                     tokens.begin());
  if (common > 0 && differs.first == drafted.begin() + ptrdiff_t(common)) return {};
  return error(StatusCode::unsupported,
               "{}: a model that drafts for {} needs its vocabulary: token {} is another one",
               draft.source->metadata().source(), main.source->metadata().source(),
               differs.first - drafted.begin());
}

Result<std::unique_ptr<Speculator>> create_speculator(const OpenedModel& main,
                                                      const OpenedModel* draft, Executor& executor,
                                                      KvCache& cache, const LoadOptions& options) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  std::vector<std::string> names = drafters_of(options);
  if (names.empty()) return nullptr;
  // Those that cost nothing come first.
  std::ranges::stable_partition(names, [](const std::string& name) { return name != "model"; });
  for (const std::string& name : names) {
    if (name == "ngram") {
      drafters.push_back(std::make_unique<NgramDrafter>());
    } else if (name == "suffix") {
      drafters.push_back(std::make_unique<SuffixDrafter>());
    } else if (name == "model" && draft != nullptr) {
      INFER_TRY(std::unique_ptr<Drafter> model,
                load_draft(*draft, main.model->info().vocabulary));
      drafters.push_back(std::move(model));
    } else if (name == "model") {
      return fail(StatusCode::invalid_argument, "the drafter 'model' needs a draft model");
    } else {
      return fail(StatusCode::invalid_argument,
                  "drafter '{}': expected ngram, suffix or model", name);
    }
  }
  INFER_TRY(const StepCosts costs,
            StepCosts::measure(executor, cache, main.request.max_outputs, kMeasureSeconds));
  return std::make_unique<Speculator>(std::move(drafters), costs);
}

}  // namespace infer
