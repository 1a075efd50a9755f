#include <algorithm>
#include <cmath>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// "Adaptive-P" (MrJackSpade, "The Adaptive-P Algorithm", section 3, 2025; with the width that
/// llama.cpp has): prefers tokens whose probability is near a target. The logit of a token of
/// probability p becomes 5 − 10·d²/(1 + d) with d = |p − t|/0.3.
///
/// t is 2·target − mean, within 0 and 1. `mean` is that of the probabilities of the tokens drawn so
/// far, each with `decay` times the weight of the next. It begins at the target.
class AdaptiveP final : public Sampler {
 public:
  explicit AdaptiveP(const SamplingParams& p)
      : target_(p.adaptive_target),
        decay_(std::min(double{p.adaptive_decay}, 0.99)),
        weight_(1 / (1 - decay_)),
        sum_(target_ * weight_) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) override {
    before_ = candidates;
    best_ = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    total_ = 0;
    for (const Candidate& c : candidates) total_ += portable::exp(double{c.logit} - best_);
    const double t = std::clamp(2 * target_ - sum_ / weight_, 0.0, 1.0);
    for (Candidate& c : candidates) {
      const double d = std::fabs(probability(c) - t) / 0.3;
      c.logit = static_cast<float>(5 - 10 * d * d / (1 + d));
    }
  }

  void drawn(const std::vector<Candidate>&, int32_t token) override {
    const auto at = std::ranges::find(before_, token, &Candidate::id);
    sum_ = probability(*at) + decay_ * sum_;
    weight_ = 1 + decay_ * weight_;
  }

 private:
  /// Before the sampler.
  double probability(const Candidate& c) const {
    return portable::exp(double{c.logit} - best_) / total_;
  }

  double target_;
  double decay_;
  double weight_;  ///< of all tokens so far
  double sum_;     ///< of their probabilities by weight
  std::vector<Candidate> before_;
  double best_ = 0;
  double total_ = 1;
};

}  // namespace

std::unique_ptr<Sampler> adaptive_p_step(const SamplingParams& params) {
  if (params.adaptive_target < 0) return nullptr;
  return std::make_unique<AdaptiveP>(params);
}

}  // namespace infer
