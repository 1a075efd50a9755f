// The time of a model's steps by their number of rows. Measured when the model is loaded, and
// corrected by every step.
#pragma once

#include <array>
#include <cstdint>

#include "engine/core/status.h"
#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"

namespace infer {

/// Seconds of a step of n rows if every row returns logits. Never decreases with n.
class StepCosts {
 public:
  static constexpr int64_t kRows = 64;  ///< beyond these, extrapolated with the slope of the last

  /// Without a measurement: `first` seconds for one row and `further` for each further row.
  explicit StepCosts(double first = 1, double further = 0);

  /// Times steps of 1, 2, 4, … up to `rows` rows at the beginning of a context, for about `seconds`
  /// at most. Larger steps are extrapolated from the last two. Errors: those of Executor::run.
  static Result<StepCosts> measure(Executor& executor, KvCache& cache, int64_t rows,
                                   double seconds);

  /// rows ≥ 1.
  double seconds(int64_t rows) const;
  /// Learns from a step: it had this many rows and took this long. Corrects this size and its
  /// neighbours, and all other sizes a little, since a longer context or a busier machine changes
  /// all sizes.
  void update(int64_t rows, double seconds);

 private:
  void fill(int64_t from, int64_t to);
  void smooth();

  std::array<double, kRows + 1> seconds_{};  ///< [0] is not used
};

}  // namespace infer
