// The logits of a draft head by token of the main model.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/model/arch.h"

namespace infer {

/// −infinity for tokens that the head does not have (ModelInfo::token_ids).
class MainLogits {
 public:
  /// `vocabulary`: tokens of the main model. `head` lives longer.
  MainLogits(const ModelInfo& head, int64_t vocabulary) : ids_(head.token_ids) {
    if (ids_.empty()) return;
    logits_.assign(static_cast<size_t>(vocabulary), -std::numeric_limits<float>::infinity());
  }

  /// Of one row of the head's logits. Valid until the next call, and no longer than these.
  std::span<const float> of(std::span<const float> logits) {
    if (logits_.empty()) return logits;
    for (size_t i = 0; i < ids_.size(); ++i) logits_[static_cast<size_t>(ids_[i])] = logits[i];
    return logits_;
  }

  /// Bytes that are kept for a head like this, with its ids.
  static int64_t bytes(const ModelInfo& head, int64_t vocabulary) {
    if (head.token_ids.empty()) return 0;
    return (std::ssize(head.token_ids) + vocabulary) * int64_t{sizeof(float)};
  }

 private:
  const std::vector<int32_t>& ids_;
  std::vector<float> logits_;  ///< empty: the head has all tokens
};

}  // namespace infer
