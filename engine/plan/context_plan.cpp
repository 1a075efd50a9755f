#include "engine/plan/context_plan.h"

#include <algorithm>

#include "engine/core/checked.h"
#include "engine/plan/host_bytes.h"

namespace infer {
namespace {

/// Tokens of the cache if none are asked for: long enough for a conversation, at most what the
/// model was trained for, and no more than half of what the weights leave free. The cache grows.
constexpr int64_t kDefaultContext = 4096;

/// The least context worth it if none is asked for: steps are shortened before it is less.
constexpr int64_t kShortContext = 512;

/// The longest context of whole pages that takes at most 1 / `share` of what is left; at least one
/// page.
int64_t longest_context(const ContextCosts& costs, const MemoryPlan& plan, int64_t share) {
  int64_t fits = 1;
  int64_t too_many = INT32_MAX / kPageTokens;
  while (fits + 1 < too_many) {
    const int64_t middle = (fits + too_many) / 2;
    const std::vector<int64_t> bytes = costs.all(plan.budgets, middle * kPageTokens);
    bool all = true;
    for (size_t m = 0; m < bytes.size(); ++m) {
      const int64_t left = plan.budgets[m].available - plan.used(plan.budgets[m]);
      all = all && bytes[m] <= left / share;
    }
    (all ? fits : too_many) = middle;
  }
  return fits * kPageTokens;
}

/// The longest sequence if no context is asked for: as many tokens as the model was trained for,
/// but no more than half of what the weights leave free has room for. Where RoPE has other factors
/// for long contexts, those for short ones, which short texts need.
int64_t longest_sequence(const ModelInfo& info, const ContextCosts& costs, const MemoryPlan& plan) {
  int64_t trained = info.context;
  for (const RopeSpec& rope : info.ropes) {
    if (uses_long_factors(rope, trained)) trained = static_cast<int64_t>(rope.original_context);
  }
  if (info.embeds) trained = plan.context;  // a text is one step
  return std::max(plan.context, std::min(trained, longest_context(costs, plan, 2)));
}

}  // namespace

ContextCosts::ContextCosts(const ModelInfo& info, const KvLayout& layout,
                           const PlanRequest& request, int64_t rows)
    : info_(info), layout_(layout), request_(request), rows_(rows) {}

int64_t ContextCosts::pages(const KvKind& kind, int64_t context) const {
  return kv_pages(kind, context, request_.sequences, rows_) +
         (kind.state ? request_.draft_states : 0);
}

int64_t ContextCosts::cache(const MemoryBudget& budget, int64_t context) const {
  int64_t bytes = 0;
  for (const KvKind& kind : layout_.kinds) {
    if (std::ranges::find(budget.devices, kind.place) == budget.devices.end()) continue;
    bytes += kind.page_bytes * pages(kind, context);
  }
  return bytes;
}

int64_t ContextCosts::tokens(int64_t context) const {
  const int64_t tokens = round_up<int64_t>(context, kPageTokens);
  return host_bytes(info_, 0, 0, tokens) - host_bytes(info_, 0, 0, 0);
}

std::vector<int64_t> ContextCosts::all(const std::vector<MemoryBudget>& budgets,
                                       int64_t context) const {
  std::vector<int64_t> bytes;
  for (const MemoryBudget& budget : budgets) bytes.push_back(cache(budget, context));
  bytes[0] += tokens(context) + context * request_.drafters.token_bytes;
  return bytes;
}

int64_t wanted_context(const ModelInfo& info, const PlanRequest& request) {
  return request.context > 0 ? std::min<int64_t>(request.context, INT32_MAX)
                             : std::min(info.context, kDefaultContext);
}

Status choose_context(const ModelInfo& info, const PlanRequest& request, MemoryPlan& plan) {
  // Slots and positions are 32-bit; beyond that the sums below could wrap as well.
  if (request.context > INT32_MAX) {
    return error(StatusCode::does_not_fit,
                 "a context of {} tokens does not fit: the limit is {} tokens", request.context,
                 INT32_MAX);
  }
  if (info.positions > 0 && request.context > info.positions) {
    return error(StatusCode::does_not_fit,
                 "a context of {} tokens does not fit: the model has learned positions for {}",
                 request.context, info.positions);
  }
  const ContextCosts costs(info, plan.kv_layout, request, plan.max_rows);
  plan.context = wanted_context(info, request);
  if (request.context <= 0) {
    const int64_t wanted = plan.context;
    plan.context = std::min(wanted, longest_context(costs, plan, 2));
    if (plan.max_rows > kFewestRows && request.fewer_rows &&
        plan.context < std::min(wanted, kShortContext)) {
      return error(StatusCode::does_not_fit, "a context of {} tokens does not fit", wanted);
    }
  }
  plan.longest = request.context > 0 ? plan.context : longest_sequence(info, costs, plan);
  const std::vector<int64_t> bytes = costs.all(plan.budgets, plan.context);
  for (size_t m = 0; m < bytes.size(); ++m) {
    const MemoryBudget& budget = plan.budgets[m];
    const int64_t left = budget.available - plan.used(budget);
    if (bytes[m] <= left) continue;
    return error(StatusCode::does_not_fit,
                 "a context of {} tokens does not fit: its cache needs {}, {} is free after the "
                 "weights{}; {} tokens would fit",
                 plan.context, format_bytes(costs.cache(budget, plan.context)), format_bytes(left),
                 bytes.size() > 1 ? " on " + budget.name : "", longest_context(costs, plan, 1));
  }
  plan.devices[0].of(Purpose::host) += costs.tokens(plan.context);
  plan.devices[0].drafters += plan.context * request.drafters.token_bytes +
                              (plan.longest - plan.context) * request.drafters.grown_bytes;
  for (const KvKind& kind : plan.kv_layout.kinds) {
    const int64_t pages = costs.pages(kind, plan.context);
    plan.kv_pages.push_back(static_cast<int32_t>(pages));
    plan.devices[static_cast<size_t>(kind.place)].of(Purpose::kv) += pages * kind.page_bytes;
  }
  return {};
}

}  // namespace infer
