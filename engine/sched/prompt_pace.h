// How many tokens of prompts a step takes while other sequences generate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/graph/kv_geometry.h"

namespace infer {

/// A sequence that generates gets one token, or a few, in each step. So a step with a part of a
/// long prompt, whose tokens take the longer the more are before them, is kept short by
/// measurement.
class PromptPace {
 public:
  /// A step with this many rows took so long.
  void ran(int64_t rows, double seconds) {
    // A step of few rows takes as long as reading the weights does.
    if (rows >= kFewestRows) row_seconds_ = seconds / static_cast<double>(rows);
  }
  /// Rows of prompts that a step has at most.
  int64_t most_rows() const {
    const double rows = kStepSeconds / std::max(row_seconds_, 1e-9);
    if (rows >= 1e6) return static_cast<int64_t>(1e6);
    // Whole pages: kernels compute several rows together.
    return std::max(static_cast<int64_t>(rows) / kPageTokens * kPageTokens, kFewestRows);
  }

 private:
  static constexpr double kStepSeconds = 0.2;
  static constexpr int64_t kFewestRows = kPageTokens;

  double row_seconds_ = 0;
};

}  // namespace infer
