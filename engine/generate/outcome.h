// The consumer of a sequence takes its logits row by row and says what follows: the next token, or
// the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>

#include "engine/core/status.h"
#include "engine/exec/logits_needed.h"

namespace infer {

/// The logits after one token of a sequence.
struct LogitRow {
  /// [vocabulary]; those that the consumer does not need may be −infinity. Valid during the call.
  std::span<const float> logits;
  int64_t position = 0;             ///< index of that token in `tokens`
  std::span<const int32_t> tokens;  ///< all tokens of the sequence
  int64_t shifted = 0;              ///< tokens dropped from the front by context shifts
};

/// The answer of a consumer to a row.
struct Outcome {
  int32_t token = -1;    ///< the generated token, which the sequence continues with; −1: none
  bool goes_on = false;  ///< false: the sequence ends, and `token` is not part of it
};

/// A reader that has taken nothing for so long lags: others need not wait for it.
inline constexpr std::chrono::milliseconds kLag(250);

/// Takes the results of one sequence. All calls come from the engine's threads, one at a time.
class Consumer {
 public:
  virtual ~Consumer() = default;

  /// Called before the sequence is added. If it fails, the sequence ends: done() gets the failure.
  virtual Status begin() { return {}; }
  /// Called once, when the first step that computes the sequence begins.
  virtual void computing() {}
  /// Called before each step. Returns whether the consumer can take results now. If not, the
  /// sequence skips the step. `alone`: no other sequence is active.
  virtual bool ready(bool alone) {
    (void)alone;
    return true;
  }
  /// Called after ready() has said no: whether a reader has taken no results for kLag, so that this
  /// may last for any time.
  virtual bool lags() const { return false; }
  /// Rows that the consumer can take in the next step.
  virtual int64_t room() const { return std::numeric_limits<int64_t>::max(); }
  /// What of each row decides the outcome of the next step.
  virtual LogitsNeeded needed() const { return {}; }
  /// Takes one row. Different consumers take rows at the same time, on different threads. If it
  /// throws std::bad_alloc, the sequence ends with out_of_memory.
  virtual Outcome step(const LogitRow& row) = 0;
  /// Called once, when the sequence has left the scheduler and belongs to its owner again. Status:
  /// ok; cancelled; does_not_fit if the context is full; or a failure. Must not throw.
  virtual void done(Status status) = 0;
};

}  // namespace infer
