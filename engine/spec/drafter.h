// Drafters propose tokens that may follow a sequence. The model then checks several of them in one
// step. Proposals change the speed but never the output.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/core/status.h"

namespace infer {

class DraftSampler;

/// Number of confidence levels of a drafter: 0 to kConfidenceLevels − 1. Each drafter defines its
/// own levels. How often tokens of a level are accepted is learnt at run time.
inline constexpr int32_t kConfidenceLevels = 8;

struct DraftToken {
  int32_t token;
  int32_t confidence = 0;
};

/// A request for one sequence. The caller fills all fields except `tokens`.
struct DraftRequest {
  int64_t id = 0;                    ///< of the sequence
  std::span<const int32_t> history;  ///< all tokens of the sequence, at least one
  int64_t most = 0;                  ///< most tokens to propose, ≥ 1
  /// Draws with the same random numbers as the model will, for drafters that have probabilities.
  /// May be null.
  DraftSampler* sampler = nullptr;
  /// Called after each token added to `tokens`: whether to propose another one. Empty: propose
  /// `most`. For drafters whose tokens take time.
  std::function<bool(const DraftRequest&)> go_on;

  std::vector<DraftToken> tokens;  ///< result: the proposal, possibly empty
};

/// One kind of drafter. It serves all sequences of an engine. Not thread-safe.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// A constant: "ngram", "suffix", "model", "mtp".
  virtual const char* name() const = 0;
  /// Whether it drafts from hidden states of the main model, and needs observe().
  virtual bool takes_hidden() const { return false; }
  /// The main model has computed these tokens of a sequence: the last hidden / width of them in its
  /// last step, with these hidden states [rows][width]. The same tokens may be told again.
  virtual void observe(int64_t id, std::span<const int32_t> tokens, std::span<const float> hidden) {
    (void)id, (void)tokens, (void)hidden;
  }
  /// Makes proposals for several different sequences. Errors: device, out_of_memory; the caller
  /// then ignores the requests' tokens.
  virtual Status propose(std::span<DraftRequest* const> requests) = 0;
  /// Estimated seconds to propose `tokens` tokens for a sequence; 0 for next to nothing.
  virtual double seconds(int64_t id, std::span<const int32_t> history, int64_t tokens) const {
    (void)id, (void)history, (void)tokens;
    return 0;
  }
  /// A generation has ended. Its tokens, from history[from] on, may serve other sequences.
  virtual void learn(int64_t id, std::span<const int32_t> history, int64_t from) {
    (void)id, (void)history, (void)from;
  }
  /// Forgets everything from learn(). Measurements that repeat a text need this.
  virtual void unlearn() {}
  /// The sequence no longer exists.
  virtual void forget(int64_t id) { (void)id; }
};

}  // namespace infer
