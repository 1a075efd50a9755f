// Continuous batching. Each step mixes decode rows and chunks of prompts of the active sequences,
// up to the step's limits of rows and results.
//
// Sequences of higher priority get rows and pages first; of equal priority, the older ones. If the
// cache runs out of pages, the last sequences in that order are preempted: their pages are freed
// and recomputed later. Full pages stay in the prefix cache until the space is needed. The first
// sequence in that order is never preempted, so every sequence ends. There are two exceptions. A
// sequence that shifts its context may never end: sequences that do not fit beside it then wait. A
// sequence whose reader lags gives its pages even to those that come after it, and takes them back
// when the reader goes on: otherwise a reader could keep others waiting.
//
// Sequences that begin with the same tokens compute them once, even if they arrive together: one
// computes, and the others take over its pages in the step after.
//
// The results of a row depend only on the tokens up to it, so preemption changes no result. On
// devices with two numeric classes (Device::two_classes) results also depend on the roles of the
// tokens. A token keeps its role. There, all rows of a sequence in one step have the same role, and
// the rows of generated tokens come first in the step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/status.h"
#include "engine/exec/executor.h"
#include "engine/generate/outcome.h"
#include "engine/kv/kv_cache.h"
#include "engine/sched/counters.h"
#include "engine/sched/prompt_pace.h"
#include "engine/spec/speculator.h"
#include "engine/vision/image_rows.h"

namespace infer {

/// The tokens of one sequence and how to compute them. Its owner (a session) hands it to the
/// scheduler with add() and gets it back with Consumer::done(). In between only the scheduler's
/// thread uses it. Any thread may set `cancelled` at any time.
struct Sequence {
  KvCache::SequenceId kv = 0;   ///< the sequence in the scheduler's cache
  std::vector<int32_t> tokens;  ///< tokens already in the cache, then tokens to compute
  /// By token: true if it is computed as generated tokens are (Roles): the model made it, or it was
  /// given in a prompt of few tokens. Tokens beyond the end of this vector were given. It does not
  /// change when tokens are recomputed.
  std::vector<bool> generated;
  /// Number of leading tokens computed at least once. After a shift or preemption some of them may
  /// have to be recomputed.
  int64_t computed = 0;
  /// True: results for each token from `results_from` on, but for none of the first `computed`
  /// tokens, and of an image for its last token alone. False: results for the last token only.
  bool every_logit = false;
  int64_t results_from = 0;
  /// What to do when the context is full. −1: end the sequence with does_not_fit. Otherwise shift
  /// it: keep the first `keep` tokens and the last of the others, as many as half of the remaining
  /// context holds; drop the tokens in between; recompute the tokens that moved.
  int64_t keep = -1;
  /// Tokens that the sequence may have, if that is less than the cache's context.
  int64_t context = std::numeric_limits<int64_t>::max();
  int32_t priority = 0;  ///< higher ones get rows and pages first; constant while it is active
  int64_t shifted = 0;   ///< tokens dropped by shifts so far
  int64_t reused = 0;    ///< tokens never computed for it, since the cache held them already
  /// Not null: the scheduler may verify drafted tokens for this sequence. The consumer then gets
  /// several rows in one step. Null: at most one generated token per step.
  Drafting* drafting = nullptr;
  /// An image, of which the sequence has the first `count` tokens from `first` on.
  struct PlacedImage {
    int64_t first;
    int64_t count;
    std::shared_ptr<const ImageRows> rows;
  };
  std::vector<PlacedImage> images;  ///< in order. A sequence with images is not shifted.
  /// By adapter of the model: its factor in all rows; constant. Empty: all are 0.
  std::vector<float> adapters;
  Consumer* consumer = nullptr;  ///< gets the results; not owned
  std::atomic<bool> cancelled{false};

  /// Makes room for one more token, so that the next append_generated() cannot fail. May throw
  /// std::bad_alloc.
  void reserve_one();
  void append_generated(int32_t token);
  /// `few`: they are computed as generated tokens are. `images`: those whose tokens are among
  /// `given`, in their order. May throw std::bad_alloc; cut() then restores the sequence.
  void append_given(std::span<const int32_t> given, bool few,
                    std::span<const ModelImage> images = {});
  /// Removes the tokens from index `length` on. Cannot fail.
  void cut(size_t length);
  bool is_generated(int64_t token) const {
    return token < static_cast<int64_t>(generated.size()) && generated[static_cast<size_t>(token)];
  }
  /// Whether it is a row of an image that has a further one.
  bool within_image(int64_t token) const;
  /// Where a token is for RoPE: its index, unless images before it say otherwise.
  Position position(int64_t token) const;
  /// Of those that are computed for the first time: whether the model did not make it.
  bool is_given(int64_t token) const {
    return !is_generated(token) || (token >= few_begin_ && token < few_end_);
  }

 private:
  friend class Scheduler;
  int64_t few_begin_ = 0, few_end_ = 0;  ///< the last prompt of few tokens
  uint64_t arrival_ = 0;
  bool waiting_ = false;  ///< preempted: not computed until retry()
  bool ready_ = true;     ///< its consumer can take results in the step being built
  bool lags_ = false;     ///< it is not ready because of a reader
  bool asked_ = false;    ///< the cache has been asked for what the sequence begins with
  bool begun_ = false;    ///< a step has computed some of it
  /// Tokens for which the whole cache has room, which was too small for more.
  int64_t fits_ = std::numeric_limits<int64_t>::max();
  int64_t branch_ = 0;  ///< tokens after which another text goes on differently; 0: none known
};

/// Not thread-safe: one thread makes all calls. It calls the consumers from that thread and, for
/// Consumer::step, also from the threads of Executor::threads().
class Scheduler {
 public:
  /// A step has at most max_rows rows and max_outputs results. The executor and the cache outlive
  /// the scheduler, or are replaced by move_to().
  Scheduler(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs);

  /// Starts a sequence. It has at least one token to compute.
  void add(Sequence* sequence);
  bool idle() const { return active_.empty(); }
  /// Tokens that an active sequence may have.
  int64_t context(const Sequence& sequence) const;
  size_t active() const { return active_.size(); }
  /// Sets the speculator, which drafts tokens for each sequence with a Drafting. It outlives the
  /// scheduler. Null: no drafts.
  void set_speculator(Speculator* speculator) { speculator_ = speculator; }
  /// Records every later step; null: stop. The recorder lives until the next set_recorder().
  void set_recorder(StepRecorder* recorder) { recorder_ = recorder; }
  /// Tells the counters of every step and of the cache's pages. They outlive the scheduler. Null:
  /// no counting.
  void set_counters(Counters* counters) { counters_ = counters; }
  /// Tells the counters who holds the cache's pages now. Allocates nothing.
  void tell_pages();
  /// Uses another executor and another cache from now on. The new cache has the same sequences, but
  /// empty (KvCache::take_sequences), so the tokens of all active sequences are recomputed.
  void move_to(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs);
  /// Sets what to do when a step fails with StatusCode::device. Ok means that `recover` has called
  /// move_to(), and the sequences continue. Otherwise every sequence ends with the status that
  /// `recover` returned. Without `recover` every sequence ends with the failure itself.
  void set_recovery(std::function<Status(const Status& failure)> recover) {
    recover_ = std::move(recover);
  }
  /// Computes one step. A sequence that ends is removed, then its Consumer::done() is called. A
  /// step that computed nothing is not recorded.
  void step();
  /// True if the last step() computed nothing because the consumer of some sequence was not ready.
  bool stalled() const { return stalled_; }
  /// True if the last step() stalled while a sequence waits for pages. It gets those of a sequence
  /// whose reader has begun to lag since, so another step() after kLag may compute something.
  bool short_of_pages() const { return short_of_pages_; }
  /// Preempts the last sequence (by priority and age) that holds pages. False, without effect, if
  /// fewer than two sequences hold pages.
  bool preempt();
  /// Lets preempted sequences compute again, since there may be room now.
  void retry();
  /// Ends every sequence with this status.
  void finish_all(const Status& status);

 private:
  /// The rows of one sequence in the step being built.
  struct Part {
    Sequence* sequence;
    int64_t first;  ///< index of the first token
    int64_t count;  ///< tokens, without drafted ones
    int64_t results;
    int64_t drafted = 0;  ///< drafted tokens: each is one more row with a result
    int64_t row = 0;      ///< of the step: its first
    // Set once the step has been computed:
    std::span<const float> logits{};  ///< [results + drafted, vocabulary]
    int64_t accepted = 0;             ///< drafted tokens equal to the tokens that were chosen
    bool goes_on = true;
    Status failure{};
  };
  /// Whether the tokens of this part are computed as generated ones.
  static bool as_generated(const Part& part) { return part.sequence->is_generated(part.first); }

  int64_t pending(const Sequence& sequence) const;
  PageKeys keys(const Sequence& sequence) const;
  static int64_t replaceable(const Sequence& sequence);
  void take_over(Sequence& sequence);
  int64_t common_tokens(const Sequence& a, const Sequence& b, int64_t end) const;
  bool waits_for_another(const Sequence& sequence);
  void branches_off(Sequence& sequence, int64_t tokens);
  static bool wants_result(const Sequence& sequence, int64_t token);
  bool compute_step();
  void plan_step();
  void plan_groups();
  int64_t rows_beside_generation() const;
  void plan_group(std::span<Sequence* const> group);
  void propose();
  bool follows(const Part& part) const;
  static int64_t to_checkpoint(const Sequence& sequence, int64_t first, int64_t rows,
                               int64_t pending);
  int64_t whole_images(const Sequence& sequence, int64_t first, int64_t rows) const;
  int64_t rows_at_once(const Sequence& sequence) const;
  void take(Sequence* sequence, int64_t rows, int64_t outputs);
  Status make_room(Sequence* sequence, int64_t count);
  Sequence* last_holder(const Sequence* after) const;
  Sequence* lagging_holder(int32_t most_priority) const;
  void preempt(Sequence* sequence);
  void shift(Sequence& sequence);
  void fill_batch();
  void fill_images();
  void fill_block_positions();
  void fill_adapters();
  void deliver(std::span<const float> logits);
  static void consume(Part& part);
  static void consume_rows(Part& part);
  void commit(Part& part);
  void show_hidden(const Part& part);
  void finish(Sequence* sequence, Status status);

  void recover(const Status& failure);
  int64_t running() const;
  void tell_begun();
  void count_rows();
  void tell_step();

  Executor* executor_;
  KvCache* cache_;
  int64_t max_rows_;
  int64_t max_outputs_;
  /// By priority. Those of equal priority are rotated every step: the first one has the first turn.
  std::vector<Sequence*> active_;
  std::vector<Sequence*> order_;  ///< copy of active_ for the step being built
  std::vector<Part> parts_;
  int64_t rows_ = 0;
  int64_t outputs_ = 0;
  PromptPace pace_;
  /// If roles are separate (Executor::separate_roles): whether the step has tokens that are
  /// computed as generated ones, or the others.
  bool for_generated_ = false;
  StepBatch batch_;
  std::vector<KvCache::SequenceId> ids_;
  Speculator* speculator_ = nullptr;
  std::vector<Speculator::Item> items_;  ///< sequences with drafts; empty if a prompt is computed
  StepRecorder* recorder_ = nullptr;
  Counters* counters_ = nullptr;
  StepCounts counts_;  ///< of the step being built
  std::function<Status(const Status&)> recover_;
  Status lost_;  ///< the device failure while a step was planned; else ok
  uint64_t arrivals_ = 0;
  bool stalled_ = false;
  bool short_of_pages_ = false;
};

}  // namespace infer
