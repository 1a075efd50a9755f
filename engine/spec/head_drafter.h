// Drafts by a draft head: a small model that takes a token and the hidden state that the main model
// made of the token before it (ModelInfo::takes_hidden). Such a pair is what the head's cache holds
// an entry for. An EAGLE-3 head takes the main model's hidden states and its own in different forms
// (ModelInfo::takes_own), has no entry for a token before which no hidden state is known, and may
// have a vocabulary of its own.
//
// The head follows the main model: observe() gives it the hidden states of a step. They wait, and
// are computed when a proposal is asked for. When twice kMostWaiting wait, the older half is left
// out. So a head costs next to nothing while nobody asks, and few hundred rows when somebody does.
// A head sees less than the main model then, which changes what it proposes and nothing else.
//
// Heads may form a chain (DeepSeek-AI 2024, V3, section 2.2: modules k and k + 1). The first one
// proposes a token, the second one the token after it, and so on. The hidden states that a head
// makes are for the next one what those of the main model are for the first: it observes them, of
// all tokens and of those proposed so far. The last head goes on by itself, with hidden states of
// its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"
#include "engine/spec/drafter.h"
#include "engine/spec/held_sequences.h"
#include "engine/spec/main_logits.h"
#include "engine/spec/step_costs.h"

namespace infer {

class HeadDrafter final : public Drafter {
 public:
  /// Pairs of a sequence that stay when twice as many wait.
  static constexpr int64_t kMostWaiting = 256;
  /// Hidden states of a sequence's last tokens that are kept, since some of these tokens may have
  /// been proposed only.
  static constexpr int64_t kRecent = 16;
  /// Bytes that are kept of a sequence beside the cache, where a hidden state has `width` elements:
  /// of those observed last, as many as the drafter was made for. The others lose their hidden
  /// states.
  static int64_t sequence_bytes(int64_t width);
  /// Bytes that are kept of each token of a sequence.
  static constexpr int64_t kTokenBytes = 4 * sizeof(int32_t);

  /// `name`: a constant. The cache reuses nothing. A step has at most max_rows rows and max_outputs
  /// results. `vocabulary`: tokens of the main model. `next`: the head that proposes the token
  /// after the one that this head proposes; null: the last one. With a next one the executor's
  /// result "hidden" is of all rows, else of its outputs. `max_sequences`: whose hidden states are
  /// kept; no more are computed at once.
  HeadDrafter(const char* name, std::unique_ptr<Executor> executor, std::unique_ptr<KvCache> cache,
              int64_t max_rows, int64_t max_outputs, int64_t max_sequences, const StepCosts& costs,
              int64_t vocabulary, std::unique_ptr<HeadDrafter> next = nullptr);

  const char* name() const override { return name_; }
  bool takes_hidden() const override { return true; }
  void observe(int64_t id, std::span<const int32_t> tokens, std::span<const float> hidden) override;
  Status propose(std::span<DraftRequest* const> requests) override;
  double seconds(int64_t id, std::span<const int32_t> history, int64_t tokens) const override;
  void forget(int64_t id) override;

 private:
  struct Held {
    KvCache::SequenceId kv = 0;
    std::vector<int32_t> tokens;   ///< those whose hidden states were seen
    std::vector<int32_t> cached;   ///< positions of the pairs in the cache, ascending
    int32_t ahead = -1;            ///< the last of them is of this token after `tokens`; −1: none
    std::vector<int32_t> waiting;  ///< positions of further pairs, ascending
    std::vector<float> states;     ///< their hidden states [waiting][width]
    std::vector<float> last;       ///< that of the last of `tokens`; zeros: not known
    bool last_known = false;
    std::vector<float> recent;  ///< those of up to kRecent tokens before the last [tokens][width]
    uint64_t observed = 0;      ///< HeldSequences; 0: it keeps no states
  };
  /// A request for one head.
  struct Task {
    DraftRequest* request;
    /// Of the sequence, with the tokens that the heads before this one have proposed.
    std::span<const int32_t> history;
  };
  /// A task while it is served.
  struct Active {
    Task task;
    Held* held;
    std::vector<float> state;  ///< for the token drafted next
  };

  void drop_ahead(Held& held);
  void cut(Held& held, size_t length);
  void trim(Held& held) const;
  void know_last(Held& held, std::span<const float> state) const;
  void forget_last(Held& held) const;
  bool prepare(Held& held, std::span<const int32_t> history);
  Status propose_some(std::span<const Task> tasks);
  Status draft(std::vector<Active> active);
  void add_rows(std::vector<Active>& active, bool first);
  Status show_next(const std::vector<Active>& active);
  Status hand_on(const std::vector<Active>& active);
  Result<bool> catch_up(Held& held, int64_t id);
  double seconds(int64_t id, int64_t more, int64_t tokens) const;
  void add_row(const Held& held, int32_t token, int64_t position, int64_t slot,
               std::span<const float> state, bool own = false);
  Result<std::span<const float>> run();
  int64_t few() const { return std::max<int64_t>(2, max_rows_ / max_outputs_); }

  const char* name_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<KvCache> cache_;
  int64_t width_;  ///< elements of a hidden state of the main model
  int64_t own_;    ///< ModelInfo::takes_own
  int64_t max_rows_;
  int64_t max_outputs_;
  StepCosts costs_;
  HeldSequences<Held> sequences_;
  StepBatch batch_;
  std::vector<KvCache::SequenceId> ids_;
  MainLogits logits_;
  std::unique_ptr<HeadDrafter> next_;
};

}  // namespace infer
