// Continuous batching: every step takes decode rows and chunks of prompts from the active
// sequences, as many as the step's rows allow.
//
// Where the cache has too few pages for all, the youngest sequences wait: their pages are given up
// (full ones stay known as long as nobody needs them) and computed again when another has ended.
// The oldest always goes on, so that all come to an end; one that never ends, shifting its context,
// keeps those from running for which there is no room beside it. A row's results depend on its
// tokens alone: waiting changes none. Where devices have two numeric classes they depend on the
// tokens' roles as well, which tokens keep: a sequence's rows in a step are of one role, and those
// that were generated come first.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/core/status.h"
#include "engine/exec/executor.h"
#include "engine/generate/outcome.h"
#include "engine/kv/kv_cache.h"
#include "engine/spec/speculator.h"

namespace infer {

/// One sequence's tokens and what is to be done with them. Owned by its session; while it is active
/// only the scheduler's thread touches it, except for `cancelled`.
struct Sequence {
  KvCache::SequenceId kv = 0;
  std::vector<int32_t> tokens;  ///< those in the cache, then those to compute
  std::vector<bool> generated;  ///< by token, whether the model made it; those beyond the end were
                                ///< given. It is kept when tokens are computed again
  int64_t computed = 0;         ///< tokens, the first ones, that have been computed once, before a
                                ///< shift at other positions; some perhaps again to be
  bool every_logit = false;     ///< results for every token rather than for the last to compute
  int64_t results_from = 0;     ///< with every_logit: the first token whose results are wanted
  /// When the context is full: −1: the sequence ends; else the first `keep` tokens and the later
  /// half of the rest stay and are computed anew at their new positions, and it goes on.
  int64_t keep = -1;
  int64_t shifted = 0;  ///< tokens dropped by that
  int64_t reused = 0;   ///< tokens that the cache knew already
  /// Where tokens may be proposed for it: then the consumer takes the rows after several tokens in
  /// one step. Null: one after another.
  Drafting* drafting = nullptr;
  Consumer* consumer = nullptr;  ///< takes its results
  std::atomic<bool> cancelled{false};

  /// Makes room for one token more, so that append_generated() does not fail.
  void reserve_one();
  void append_generated(int32_t token);
  /// Forgets tokens from `length` on. Does not fail.
  void cut(size_t length);
  bool is_generated(int64_t token) const {
    return token < static_cast<int64_t>(generated.size()) && generated[static_cast<size_t>(token)];
  }

 private:
  friend class Scheduler;
  uint64_t arrival_ = 0;
  bool waiting_ = false;  ///< for another to end
  bool ready_ = true;     ///< in the step being built
};

/// One thread.
class Scheduler {
 public:
  /// Steps hold at most max_rows rows and max_outputs results.
  Scheduler(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs);

  /// The sequence has at least one token to compute.
  void add(Sequence* sequence);
  bool idle() const { return active_.empty(); }
  size_t active() const { return active_.size(); }
  /// Proposes tokens for sequences that have a Drafting; it outlives the scheduler. Null: nobody.
  void set_speculator(Speculator* speculator) { speculator_ = speculator; }
  /// Told what every step does from now on; null: nobody is. It outlives that.
  void set_recorder(StepRecorder* recorder) { recorder_ = recorder; }
  /// Computes on something else from now on. Of all sequences that are active the new cache holds
  /// nothing, so that their tokens are computed again.
  void move_to(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs);
  /// Asked when a device has failed, before that ends the sequences. Ok: it has called move_to().
  /// Else the sequences end with what it returns.
  void set_recovery(std::function<Status(const Status& failure)> recover) {
    recover_ = std::move(recover);
  }
  /// Computes one step. Sequences that end are told and removed. What is recorded of a step in
  /// which nothing was computed is dropped.
  void step();
  /// Whether the last step() computed nothing because no sequence was ready.
  bool stalled() const { return stalled_; }
  /// Makes the youngest sequence that holds pages wait; false if at most one holds any.
  bool preempt();
  /// There may be room for those that wait.
  void retry();
  /// Ends every sequence with this status.
  void finish_all(const Status& status);

 private:
  /// A sequence's rows in the step being built.
  struct Part {
    Sequence* sequence;
    int64_t first;  ///< token
    int64_t count;
    int64_t results;
    int64_t drafted = 0;  ///< further rows and results: tokens proposed to follow
    // When they have been computed:
    std::span<const float> logits{};  ///< of its results
    int64_t accepted = 0;             ///< proposed tokens that were what the consumer chose
    bool goes_on = true;
    Status failure{};
  };
  /// Whether a part's rows were generated.
  static bool made_by_model(const Part& part) { return part.sequence->is_generated(part.first); }

  int64_t pending(const Sequence& sequence) const;
  PageKeys keys(const Sequence& sequence) const;
  static bool wants_result(const Sequence& sequence, int64_t token);
  bool compute_step();
  void plan_step();
  void propose();
  void take(Sequence* sequence, int64_t rows, int64_t outputs);
  Status make_room(Sequence* sequence, int64_t count);
  Sequence* youngest_holder(uint64_t after) const;
  void preempt(Sequence* sequence);
  void shift(Sequence& sequence);
  void fill_batch();
  void deliver(std::span<const float> logits);
  static void consume(Part& part);
  static void consume_rows(Part& part);
  void commit(Part& part);
  void finish(Sequence* sequence, Status status);

  void recover(const Status& failure);

  Executor* executor_;
  KvCache* cache_;
  int64_t max_rows_;
  int64_t max_outputs_;
  std::vector<Sequence*> active_;  ///< whose turn comes first
  std::vector<Sequence*> order_;   ///< of the step being built
  std::vector<Part> parts_;
  int64_t rows_ = 0;
  int64_t outputs_ = 0;
  StepBatch batch_;
  std::vector<KvCache::SequenceId> ids_;
  Speculator* speculator_ = nullptr;
  std::vector<Speculator::Item> items_;  ///< of a step with nothing but tokens that follow
  StepRecorder* recorder_ = nullptr;
  std::function<Status(const Status&)> recover_;
  Status lost_;  ///< a device failed while a step was planned
  uint64_t arrivals_ = 0;
  bool stalled_ = false;
};

}  // namespace infer
