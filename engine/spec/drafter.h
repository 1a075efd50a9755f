// Drafters propose tokens that may follow a sequence; the model then checks several in one step.
// Which ones are proposed changes no output, only the speed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/core/status.h"

namespace infer {

class DraftSampler;

/// Levels of sureness that a drafter tells apart, 0 to kDraftSigns − 1. What they mean is its own
/// matter: how often tokens of a level are accepted is learnt while it runs.
inline constexpr int32_t kDraftSigns = 8;

struct DraftToken {
  int32_t token;
  int32_t sign = 0;
};

/// What is asked for one sequence. The caller fills all but `tokens`.
struct DraftRequest {
  int64_t id = 0;                    ///< of the sequence
  std::span<const int32_t> history;  ///< its tokens, at least one: what is proposed follows them
  int64_t most = 0;                  ///< tokens to propose at most, ≥ 1
  /// Draws like the model will; for drafters that have probabilities. May be null.
  DraftSampler* sampler = nullptr;
  /// Asked after each token put into `tokens` whether to propose another; empty: up to `most`. For
  /// drafters to which a token costs something.
  std::function<bool(const DraftRequest&)> go_on;

  std::vector<DraftToken> tokens;  ///< the proposal, perhaps none
};

/// One kind of drafter, for all sequences of an engine. One thread.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// A constant: "ngram", "suffix", "model".
  virtual const char* name() const = 0;
  /// Proposes for several sequences, each at most once. Fails with device or out_of_memory; what
  /// the requests hold then does not count.
  virtual Status propose(std::span<DraftRequest* const> requests) = 0;
  /// Seconds that proposing `tokens` tokens for that sequence will take, as far as is known; 0 for
  /// what takes next to nothing.
  virtual double seconds(int64_t id, std::span<const int32_t> history, int64_t tokens) const {
    (void)id, (void)history, (void)tokens;
    return 0;
  }
  /// A generation has ended: what it made, from history[from] on, may serve other sequences.
  virtual void learn(int64_t id, std::span<const int32_t> history, int64_t from) {
    (void)id, (void)history, (void)from;
  }
  /// Forgets what it was taught by learn(): for measurements that repeat a text.
  virtual void unlearn() {}
  /// The sequence is gone.
  virtual void forget(int64_t id) { (void)id; }
};

}  // namespace infer
