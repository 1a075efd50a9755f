// Drafts by a head that writes several tokens in one step (ModelInfo::block). The head's cache
// holds an entry for each token whose hidden state of the main model was observed. A step computes
// the entries that wait, and a block: the last token of the text, and masks in the places of tokens
// that are to be drafted. The block itself leaves nothing in the cache.
//
// Hidden states wait as those of HeadDrafter do: until a proposal is asked for, the last
// kMostWaiting at least. So a head may see less than the main model, which changes what it proposes
// and nothing else.
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

class BlockDrafter final : public Drafter {
 public:
  /// Entries of a sequence that stay when twice as many wait.
  static constexpr int64_t kMostWaiting = 256;
  /// At most so many are computed in a step with a block, those of each sequence.
  static constexpr int64_t kFew = 8;
  /// Bytes that are kept of a sequence beside the cache, where a hidden state has `width` elements:
  /// of those observed last, as many as the drafter was made for. The others lose their hidden
  /// states.
  static int64_t sequence_bytes(int64_t width);
  /// Bytes that are kept of each token of a sequence.
  static constexpr int64_t kTokenBytes = 4 * sizeof(int32_t);

  /// `name`: a constant. The cache reuses nothing. A step has at most max_rows rows, of which a
  /// sequence takes block.rows + kFew, and max_outputs results, of which it takes block.rows.
  /// `vocabulary`: tokens of the main model. `max_sequences`: whose hidden states are kept.
  /// `transitions`: computes Model::transitions(), for max_outputs / block.rows sequences at once;
  /// null: there are none.
  BlockDrafter(const char* name, std::unique_ptr<Executor> executor, std::unique_ptr<KvCache> cache,
               int64_t max_rows, int64_t max_outputs, int64_t max_sequences, const StepCosts& costs,
               int64_t vocabulary, std::unique_ptr<Executor> transitions);

  const char* name() const override { return name_; }
  bool takes_hidden() const override { return true; }
  void observe(int64_t id, std::span<const int32_t> tokens, std::span<const float> hidden) override;
  Status propose(std::span<DraftRequest* const> requests) override;
  double seconds(int64_t id, std::span<const int32_t> history, int64_t tokens) const override;
  void forget(int64_t id) override;

 private:
  struct Held {
    KvCache::SequenceId kv = 0;
    std::vector<int32_t> tokens;   ///< those that were seen
    std::vector<int32_t> cached;   ///< positions of the entries in the cache, ascending
    std::vector<int32_t> waiting;  ///< positions of further entries, ascending
    std::vector<float> states;     ///< their hidden states [waiting][width]
    uint64_t observed = 0;         ///< HeldSequences; 0: it keeps no states
  };
  /// A request while it is served.
  struct Active {
    DraftRequest* request;
    Held* held;
    size_t first = 0;  ///< number of its first result in the step
  };

  void cut(Held& held, size_t length);
  bool prepare(Held& held, std::span<const int32_t> history);
  Result<bool> catch_up(Held& held);
  void add_waiting(const Held& held, int64_t count);
  void add_row(const Held& held, int32_t token, int64_t position, int64_t slot, int64_t last,
               std::span<const float> state);
  void add_block(Active& active);
  void commit_waiting(Held& held, int64_t count);
  Result<std::span<const float>> run();
  Status propose_some(std::span<DraftRequest* const> requests);
  Status draft(std::vector<Active> active);
  Status choose(std::vector<Active> active, std::span<const float> logits);
  Result<std::span<const float>> follow(std::span<const Active> active);
  /// Tokens that a block gives.
  int64_t gives() const { return block_.rows - (block_.from_first ? 0 : 1); }

  const char* name_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Executor> transitions_;
  DraftBlock block_;
  int64_t width_;  ///< elements of a hidden state of the main model
  int64_t max_rows_;
  int64_t together_;  ///< sequences of a step
  StepCosts costs_;
  double follow_seconds_ = 0;  ///< of a step of the transitions
  HeldSequences<Held> sequences_;
  StepBatch batch_, follow_batch_;
  std::vector<KvCache::SequenceId> ids_;
  MainLogits logits_;
  std::vector<float> sum_;  ///< of logits and what they get for the token before
};

}  // namespace infer
