#include <algorithm>
#include <cmath>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// Keeps logits within n standard deviations of all logits from the largest (Tang et al. 2024).
class TopNSigma final : public Sampler {
 public:
  explicit TopNSigma(float n) : n_(n) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) override {
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double sum = 0;
    double squares = 0;
    for (const Candidate& c : candidates) {
      const double x = double{c.logit} - best;
      sum += x;
      squares += x * x;
    }
    const auto count = static_cast<double>(candidates.size());
    const double mean = sum / count;
    const double sigma = std::sqrt(std::max(0.0, squares / count - mean * mean));
    const double least = -n_ * sigma;
    std::erase_if(candidates, [&](const Candidate& c) { return double{c.logit} - best < least; });
  }

 private:
  double n_;
};

}  // namespace

std::unique_ptr<Sampler> top_n_sigma_step(const SamplingParams& params) {
  if (!(params.top_n_sigma > 0)) return nullptr;
  return std::make_unique<TopNSigma>(params.top_n_sigma);
}

}  // namespace infer
