// What becomes of the logits of a step: whoever a sequence is computed for takes them, row by row,
// and says what follows.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "engine/core/status.h"

namespace infer {

/// The logits after one token of a sequence.
struct LogitRow {
  std::span<const float> logits;    ///< [vocabulary]; valid during the call
  int64_t position = 0;             ///< of that token in the sequence
  std::span<const int32_t> tokens;  ///< all of the sequence
  int64_t shifted = 0;              ///< tokens that stood before them and were dropped
};

/// What a row led to.
struct Outcome {
  int32_t token = -1;    ///< generated: the sequence goes on with it; −1: none
  bool goes_on = false;  ///< else the sequence ends, and `token` does not belong to it
};

/// Whoever a sequence is computed for. All calls come from the engine's threads, one at a time.
class Consumer {
 public:
  virtual ~Consumer() = default;

  /// Before the sequence is taken in. A failure is what done() is told at once.
  virtual Status begin() { return {}; }
  /// Asked before each step: whether it could take results at once. If not, the sequence sits the
  /// step out. `alone`: no other sequence is active.
  virtual bool ready(bool alone) {
    (void)alone;
    return true;
  }
  /// Rows that it can take in the next step.
  virtual int64_t room() const { return std::numeric_limits<int64_t>::max(); }
  /// Takes a row. Several consumers take theirs at the same time, on different threads. May throw
  /// std::bad_alloc, which ends the sequence with out_of_memory.
  virtual Outcome step(const LogitRow& row) = 0;
  /// Told once, when the sequence has left the scheduler: ok; cancelled; does_not_fit when the
  /// context is full; or a failure. Does not throw. The sequence is its owner's again.
  virtual void done(Status status) = 0;
};

}  // namespace infer
