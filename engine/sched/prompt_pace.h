// How many tokens of prompts a step takes while other sequences generate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/graph/kv_geometry.h"

namespace infer {

/// A sequence that generates gets one token, or a few, in each step. So a step with a part of a
/// long prompt, whose tokens take the longer the more are before them, is kept short by
/// measurement: to a fifth of a second, or, where a step without a prompt takes a good part of that
/// or more, to twice the time of such a step.
class PromptPace {
 public:
  /// A step with this many rows took so long.
  void ran(int64_t rows, double seconds) {
    if (rows < kFewestRows) {                 // mostly the time that reading the weights takes
      fixed_ = std::min(seconds, last_few_);  // one step may have been held up
      last_few_ = seconds;
      return;
    }
    row_seconds_ = std::max(seconds - fixed_, seconds / 8) / static_cast<double>(rows);
  }
  /// Rows of prompts that a step has at most.
  int64_t most_rows() const {
    const double rows = std::max(kStepSeconds - fixed_, fixed_) / std::max(row_seconds_, 1e-9);
    if (rows >= 1e6) return static_cast<int64_t>(1e6);
    // Whole pages: kernels compute several rows together.
    return std::max(static_cast<int64_t>(rows) / kPageTokens * kPageTokens, kFewestRows);
  }

 private:
  static constexpr double kStepSeconds = 0.2;
  static constexpr int64_t kFewestRows = kPageTokens;

  double fixed_ = 0;     ///< seconds of a step that do not depend on its rows
  double last_few_ = 0;  ///< seconds of the last step of few rows
  double row_seconds_ = 0;
};

}  // namespace infer
