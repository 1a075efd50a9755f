#include <algorithm>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// Keeps the smallest set of the most likely whose probability reaches p (Holtzman et al. 2020).
class TopP final : public Sampler {
 public:
  explicit TopP(float p) : p_(p) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) override {
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double total = 0;
    for (const Candidate& c : candidates) total += portable::exp(double{c.logit} - best);
    cut_nucleus(candidates, best, p_ * total, p_ * total);
  }

 private:
  double p_;
};

}  // namespace

Nucleus cut_nucleus(std::vector<Candidate>& candidates, float best, double enough, double surely) {
  const auto more_likely = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  // The nucleus is usually small: sort a front that grows until it holds enough probability.
  double sum = 0;
  size_t sorted = 0;
  for (size_t front = 64; sorted < candidates.size(); front *= 4) {
    const size_t end = std::min(front, candidates.size());
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    const auto middle = candidates.begin() + static_cast<ptrdiff_t>(end);
    if (end < candidates.size()) {
      std::ranges::nth_element(begin, middle, candidates.end(), more_likely);
    }
    std::ranges::sort(begin, middle, more_likely);
    for (; sorted < end; ++sorted) {
      sum += portable::exp(double{candidates[sorted].logit} - best);
      if (sum < enough) continue;
      if (sum < surely) return Nucleus::unsure;
      candidates.resize(sorted + 1);
      return Nucleus::cut;
    }
  }
  return Nucleus::open;
}

std::unique_ptr<Sampler> top_p_step(const SamplingParams& params) {
  if (!(params.top_p < 1)) return nullptr;
  return std::make_unique<TopP>(params.top_p);
}

}  // namespace infer
