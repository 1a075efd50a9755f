// A small model beside the one that it drafts for: its steps, and its cache of each sequence.
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

/// One thread.
class DraftModel {
 public:
  /// Steps hold at most max_rows rows and max_outputs results.
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

  /// Makes a sequence hold `tokens`, at least one, and computes all but the last few. False if
  /// there is no room for them or it cannot read one. What it has of them is not computed again.
  Result<bool> prepare(int64_t id, std::span<const int32_t> tokens);
  /// Computes what prepare() and append() left of these sequences, at most max_outputs() of them:
  /// the logits [vocabulary] after each one's last token, in their order, valid until the next
  /// call. A sequence that finds no room gets an empty span.
  Result<std::vector<std::span<const float>>> next(std::span<const int64_t> ids);
  void append(int64_t id, int32_t token) { sequences_.at(id).tokens.push_back(token); }
  /// Others may have its pages until prepare() is called again.
  void rest(int64_t id);
  void forget(int64_t id);

  /// Seconds until `count` tokens after the first `length` are there, one after another, by what is
  /// known.
  double seconds(int64_t id, int64_t length, int64_t count) const;

 private:
  struct Held {
    KvCache::SequenceId kv = 0;
    std::vector<int32_t> tokens;  ///< the first ones, up to the cache's length, are computed
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
  double token_seconds_ = 0;  ///< of many computed at once; 0: not known
  std::unordered_map<int64_t, Held> sequences_;
  StepBatch batch_;
  std::vector<KvCache::SequenceId> ids_;
};

}  // namespace infer
