// What a context takes, and how long one may be.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/planner.h"

namespace infer {

/// Bytes that a context takes: of the cache, and of the host for its tokens.
class ContextCosts {
 public:
  /// Steps have `rows` tokens at most. All that is given outlives this.
  ContextCosts(const ModelInfo& info, const KvLayout& layout, const PlanRequest& request,
               int64_t rows);

  /// Of the cache, in the memory of one budget.
  int64_t cache(const MemoryBudget& budget, int64_t context) const;
  /// In the memory of each budget; the first one has the tokens too.
  std::vector<int64_t> all(const std::vector<MemoryBudget>& budgets, int64_t context) const;
  /// Of the host, for the tokens of one sequence.
  int64_t tokens(int64_t context) const;
  /// Pages of a kind.
  int64_t pages(const KvKind& kind, int64_t context) const;

 private:
  const ModelInfo& info_;
  const KvLayout& layout_;
  const PlanRequest& request_;
  int64_t rows_;
};

/// Steps are not cut down to fewer rows than this.
inline constexpr int64_t kFewestRows = 16;

/// The context asked for; without one, what the planner would like to give.
int64_t wanted_context(const ModelInfo& info, const PlanRequest& request);

/// Chooses plan.context if none is asked for, and adds to a plan that has all else what the context
/// takes. does_not_fit says what is free and how long a context may be.
Status choose_context(const ModelInfo& info, const PlanRequest& request, MemoryPlan& plan);

}  // namespace infer
