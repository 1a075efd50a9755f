// Chooses drafted tokens in the same way as the model will choose its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sample/constraint.h"
#include "engine/sample/sampler.h"
#include "engine/spec/drafter.h"

namespace infer {

/// The sampler of one generation. At each position it uses the same random noise as the model will.
/// If drafter and model have probabilities p and q, they choose the same token with a probability
/// near 1 − ½ Σ |p − q|, which is the highest possible (Daliri et al. 2025, coupling by Gumbel
/// noise).
class DraftSampler {
 public:
  explicit DraftSampler(const SamplingParams& params) : chain_(params) {}

  /// Begins a proposal after `history`. `position`: position of its first token, which selects the
  /// noise. `constraint`: state of the grammar after `history`, or null.
  void begin(std::span<const int32_t> history, int64_t position, const Constraint* constraint);
  /// Chooses the next token from these logits. Its confidence says how probable it is. −1 if the
  /// constraint allows no token.
  DraftToken next(std::span<const float> logits);

 private:
  SamplerChain chain_;
  std::unique_ptr<Constraint> constraint_;
  std::vector<int32_t> history_;  ///< with what was proposed
  int64_t position_ = 0;
};

}  // namespace infer
