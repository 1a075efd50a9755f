#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

void keep_best(std::vector<Candidate>& candidates) {
  const Candidate best =
      *std::ranges::max_element(candidates, [](const Candidate& a, const Candidate& b) {
        return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
      });
  candidates.assign(1, best);
}

/// Divides logits by the temperature. At temperature 0 keeps only the most likely token.
///
/// If the range is above 0, the temperature varies from max(0, value − range), when one token is
/// certain, to value + range, when all are equally likely. In between it follows (entropy / largest
/// entropy) to the power of `exponent` (dynamic temperature, kalomaze 2023).
class TemperatureSampler final : public Sampler {
 public:
  explicit TemperatureSampler(const SamplingParams& p)
      : value_(p.temperature), range_(p.dynamic_range), exponent_(p.dynamic_exponent) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) override {
    const float value = range_ > 0 ? dynamic(candidates) : value_;
    if (!(value > 0)) {
      keep_best(candidates);
      return;
    }
    constexpr float kLeast = std::numeric_limits<float>::lowest();
    const float inverse = 1.0f / value;
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    if (std::isfinite(best * inverse)) {
      for (Candidate& c : candidates) c.logit = std::max(c.logit * inverse, kLeast);
      return;
    }
    // The quotients are beyond float: what counts is how far each is from the best.
    for (Candidate& c : candidates) {
      const double behind = (double{c.logit} - best) / value;
      c.logit = static_cast<float>(std::max(behind, double{kLeast}));
    }
  }

 private:
  float dynamic(const std::vector<Candidate>& candidates) const {
    const float low = std::max(0.0f, value_ - range_);
    if (candidates.size() < 2) return value_;
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double total = 0;
    double weighted = 0;
    for (const Candidate& c : candidates) {
      const double shifted = double{c.logit} - best;
      const double weight = portable::exp(shifted);
      total += weight;
      if (weight > 0) weighted += weight * shifted;
    }
    const double entropy = portable::log(total) - weighted / total;
    const double share =
        std::clamp(entropy / portable::log(static_cast<double>(candidates.size())), 0.0, 1.0);
    return low +
           (value_ + range_ - low) * static_cast<float>(portable::pow(share, double{exponent_}));
  }

  float value_;
  float range_;
  float exponent_;
};

}  // namespace

std::unique_ptr<Sampler> temperature_step(const SamplingParams& params) {
  if (params.temperature == 1 && !(params.dynamic_range > 0)) return nullptr;
  return std::make_unique<TemperatureSampler>(params);
}

}  // namespace infer
