#include "engine/spec/draft_sampler.h"

#include <algorithm>

namespace infer {
namespace {

/// Levels of probability, finer where it is high: what matters is how likely a long proposal holds.
int32_t sign_of(float probability) {
  constexpr float kFrom[] = {0.1f, 0.25f, 0.45f, 0.65f, 0.8f, 0.92f, 0.98f};
  static_assert(std::size(kFrom) + 1 == kConfidenceLevels);
  return static_cast<int32_t>(std::ranges::upper_bound(kFrom, probability) - kFrom);
}

}  // namespace

void DraftSampler::begin(std::span<const int32_t> history, int64_t position,
                         const Constraint* constraint) {
  history_.assign(history.begin(), history.end());
  position_ = position;
  constraint_ = constraint == nullptr ? nullptr : constraint->clone();
}

DraftToken DraftSampler::next(std::span<const float> logits) {
  const int32_t token = chain_.sample(logits, {history_, position_}, constraint_.get());
  if (token < 0) return {-1};
  if (constraint_ != nullptr && !constraint_->accept(token)) return {-1};
  history_.push_back(token);
  ++position_;
  return {token, sign_of(chain_.last_probability())};
}

}  // namespace infer
