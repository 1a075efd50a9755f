// Continuous batching: every step takes decode rows and chunks of prompts from the active
// sequences.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/status.h"
#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"

namespace infer {

/// One sequence's tokens and what is to be done with them. Owned by its session; while it is active
/// only the scheduler's thread touches it, except for `cancelled`.
struct Sequence {
  KvCache::SequenceId kv = 0;
  std::vector<int32_t> tokens;  ///< those in the cache, then those to compute
  bool every_logit = false;     ///< results for every token rather than for the last to compute

  /// Told the logits after tokens[position]. May append tokens to go on; false ends the sequence.
  std::function<bool(int64_t position, std::span<const float> logits)> on_logits;
  /// Told once, when the sequence leaves the scheduler: ok; cancelled; does_not_fit when the cache
  /// is full; or a step's failure.
  std::function<void(Status)> on_done;
  std::atomic<bool> cancelled{false};
};

/// One thread.
class Scheduler {
 public:
  /// Steps hold at most max_rows rows and max_outputs results.
  Scheduler(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs);

  /// The sequence has at least one token to compute.
  void add(Sequence* sequence) { active_.push_back(sequence); }
  bool idle() const { return active_.empty(); }
  size_t active() const { return active_.size(); }
  /// Told what every step does from now on; null: nobody is. It outlives that.
  void set_recorder(StepRecorder* recorder) { recorder_ = recorder; }
  /// Computes one step. Sequences that end are told and removed.
  void step();
  /// Ends every sequence with this status.
  void finish_all(const Status& status);

 private:
  /// A sequence's rows in the step being built.
  struct Part {
    Sequence* sequence;
    int64_t first;  ///< token
    int64_t count;
  };

  int64_t pending(const Sequence& sequence) const;
  void plan_step();
  void take(Sequence* sequence, int64_t rows, int64_t outputs);
  void fill_batch();
  void deliver(std::span<const float> logits);
  void finish(Sequence* sequence, Status status);

  Executor& executor_;
  KvCache& cache_;
  int64_t max_rows_;
  int64_t max_outputs_;
  std::vector<Sequence*> active_;  ///< in order of arrival
  std::vector<Sequence*> order_;   ///< of the step being built
  std::vector<Part> parts_;
  int64_t rows_ = 0;
  int64_t outputs_ = 0;
  StepBatch batch_;
  std::vector<KvCache::SequenceId> ids_;
  StepRecorder* recorder_ = nullptr;
};

}  // namespace infer
