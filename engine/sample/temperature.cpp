#include <algorithm>
#include <cmath>
#include <limits>

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

class TemperatureSampler final : public Sampler {
 public:
  explicit TemperatureSampler(const Temperature& t) : t_(t) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) const override {
    const float value = t_.range > 0 ? dynamic(candidates) : t_.value;
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
    const float low = std::max(0.0f, t_.value - t_.range);
    if (candidates.size() < 2) return t_.value;
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double total = 0;
    double weighted = 0;
    for (const Candidate& c : candidates) {
      const double shifted = double{c.logit} - best;
      const double weight = std::exp(shifted);
      total += weight;
      if (weight > 0) weighted += weight * shifted;
    }
    const double entropy = std::log(total) - weighted / total;
    const double share =
        std::clamp(entropy / std::log(static_cast<double>(candidates.size())), 0.0, 1.0);
    return low +
           (t_.value + t_.range - low) * static_cast<float>(std::pow(share, double{t_.exponent}));
  }

  Temperature t_;
};

}  // namespace

std::unique_ptr<Sampler> make_temperature(const Temperature& temperature) {
  return std::make_unique<TemperatureSampler>(temperature);
}

}  // namespace infer
