#include <algorithm>
#include <cmath>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// Keeps the tokens whose information is nearest the expected one until their probability reaches p
/// (Meister et al. 2023, locally typical sampling).
class Typical final : public Sampler {
 public:
  explicit Typical(float p) : p_(p) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) override {
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double total = 0;
    double weighted = 0;  // Σ p·logit, before division by the total
    for (const Candidate& c : candidates) {
      const double shifted = double{c.logit} - best;
      total += portable::exp(shifted);
      weighted += portable::exp(shifted) * shifted;
    }
    // −log p = log total − shifted, so its expectation is the entropy, and what counts is how far
    // a candidate's shifted logit lies from the mean one.
    const double mean = weighted / total;
    const auto distance = [&](const Candidate& c) {
      return std::fabs(double{c.logit} - best - mean);
    };
    std::ranges::sort(candidates, [&](const Candidate& a, const Candidate& b) {
      const double da = distance(a);
      const double db = distance(b);
      return da != db ? da < db : a.id < b.id;
    });
    double sum = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      sum += portable::exp(double{candidates[i].logit} - best);
      if (sum >= p_ * total) {
        candidates.resize(i + 1);
        return;
      }
    }
  }

 private:
  double p_;
};

}  // namespace

std::unique_ptr<Sampler> typical_p_step(const SamplingParams& params) {
  if (!(params.typical_p < 1)) return nullptr;
  return std::make_unique<Typical>(params.typical_p);
}

}  // namespace infer
