// Choosing drafted tokens the way the model will choose its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sample/constraint.h"
#include "engine/sample/sampler.h"
#include "engine/spec/drafter.h"

namespace infer {

/// Of one generation. Draws with the same noise as the model will at that position: where the two
/// have probabilities p and q the same token comes with a chance near 1 − ½ Σ |p − q|, the most
/// that is possible (Daliri et al. 2025, coupling by Gumbel noise).
class DraftSampler {
 public:
  explicit DraftSampler(const SamplingParams& params) : chain_(params) {}

  /// A proposal begins that follows `history`. `position`: of its first token, for the draws.
  /// `constraint`: where the generation stands, or null.
  void begin(std::span<const int32_t> history, int64_t position, const Constraint* constraint);
  /// The next token by these logits, its sign telling how probable it is; −1 where none may follow.
  DraftToken next(std::span<const float> logits);

 private:
  SamplerChain chain_;
  std::unique_ptr<Constraint> constraint_;
  std::vector<int32_t> history_;  ///< with what was proposed
  int64_t position_ = 0;
};

}  // namespace infer
