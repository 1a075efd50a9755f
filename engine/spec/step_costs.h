// What steps of a model cost by their rows: measured when it is loaded, corrected by every step.
#pragma once

#include <array>
#include <cstdint>

#include "engine/core/status.h"
#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"

namespace infer {

/// Seconds of a step of n rows, each of which gives logits. Never falls with n.
class StepCosts {
 public:
  static constexpr int64_t kRows = 64;  ///< beyond them the last rows' slope goes on

  /// One row takes `first` seconds and each further one `further`: where nothing was measured.
  explicit StepCosts(double first = 1, double further = 0);

  /// Times steps of 1, 2, 4, … up to `rows` rows at the beginning of a context, at most for about
  /// `seconds`; what that leaves out is as the last two say. Fails as steps do.
  static Result<StepCosts> measure(Executor& executor, KvCache& cache, int64_t rows,
                                   double seconds);

  /// rows ≥ 1.
  double seconds(int64_t rows) const;
  /// A step of so many rows took that long: corrects this size and those near it, and a little all
  /// of them, since a longer context or a busier machine changes all.
  void update(int64_t rows, double seconds);

 private:
  void fill(int64_t from, int64_t to);
  void smooth();

  std::array<double, kRows + 1> seconds_{};  ///< [0] is not used
};

}  // namespace infer
