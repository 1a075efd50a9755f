// Which logits of a row decide what is drawn from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace infer {

/// The logits that are at most `reach` below the row's largest, provided that they are `least` or
/// more; otherwise all. The others may then be −infinity.
struct LogitsNeeded {
  float reach = std::numeric_limits<float>::infinity();  ///< infinity: all are needed
  int64_t least = 1;

  bool all() const { return reach == std::numeric_limits<float>::infinity(); }
  /// What serves both.
  LogitsNeeded with(const LogitsNeeded& other) const {
    return {std::max(reach, other.reach), std::max(least, other.least)};
  }
};

}  // namespace infer
