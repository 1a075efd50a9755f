// A small model that drafts for a larger one: its steps and its own cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"
#include "engine/spec/step_costs.h"

namespace infer {

/// Not thread-safe.
class DraftModel {
 public:
  /// A step has at most max_rows rows and max_outputs results.
  DraftModel(std::unique_ptr<Executor> executor, std::unique_ptr<KvCache> cache, int64_t vocabulary,
             int64_t max_rows, int64_t max_outputs, const StepCosts& costs)
      : executor_(std::move(executor)),
        cache_(std::move(cache)),
        vocabulary_(vocabulary),
        max_rows_(max_rows),
        max_outputs_(max_outputs),
        costs_(costs) {}

  int64_t vocabulary() const { return vocabulary_; }
  int64_t max_outputs() const { return max_outputs_; }
  int64_t context() const { return cache_->context(); }

  /// Sets the tokens of a sequence (at least one) and computes all but the last few. Tokens already
  /// computed are not computed again. False if there is no room, or if a token is not in this
  /// model's vocabulary.
  Result<bool> prepare(int64_t id, std::span<const int32_t> tokens);
  /// Computes the remaining tokens of these sequences, at most max_outputs() sequences. Returns the
  /// logits [vocabulary] after the last token of each, in order, valid until the next call. The
  /// span of a sequence without room is empty.
  Result<std::vector<std::span<const float>>> next(std::span<const int64_t> ids);
  /// Adds a token, which next() will compute.
  void append(int64_t id, int32_t token) { sequences_.at(id).tokens.push_back(token); }
  /// Lets other sequences take the pages of this one until the next prepare().
  void rest(int64_t id);
  void forget(int64_t id);

  /// Estimated seconds to draft `count` tokens, one after another, after the first `length` tokens.
  double seconds(int64_t id, int64_t length, int64_t count) const;

 private:
  struct Held {
    KvCache::SequenceId kv = 0;
    std::vector<int32_t> tokens;  ///< computed up to the length of the cache's sequence
  };

  /// Rows of one sequence that next() may have to compute.
  int64_t few() const { return std::max<int64_t>(1, max_rows_ / max_outputs_); }
  Result<std::span<const float>> compute(std::span<Held* const> parts, int64_t most);

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<KvCache> cache_;
  int64_t vocabulary_;
  int64_t max_rows_;
  int64_t max_outputs_;
  StepCosts costs_;
  double token_seconds_ = 0;  ///< seconds of one token if many are computed at once; 0: not known
  std::unordered_map<int64_t, Held> sequences_;
  StepBatch batch_;
  std::vector<KvCache::SequenceId> ids_;
};

}  // namespace infer
