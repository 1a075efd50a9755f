#include <algorithm>
#include <cmath>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

class TopP final : public Sampler {
 public:
  explicit TopP(float p) : p_(p) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) const override {
    const auto more_likely = [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    };
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double total = 0;
    for (const Candidate& c : candidates) total += std::exp(double{c.logit} - best);

    // The nucleus is usually small: sort a front that grows until it holds enough probability.
    double sum = 0;
    size_t sorted = 0;
    for (size_t front = 64; sorted < candidates.size(); front *= 4) {
      const size_t end = std::min(front, candidates.size());
      std::ranges::partial_sort(candidates.begin() + static_cast<ptrdiff_t>(sorted),
                                candidates.begin() + static_cast<ptrdiff_t>(end), candidates.end(),
                                more_likely);
      for (; sorted < end; ++sorted) {
        sum += std::exp(double{candidates[sorted].logit} - best);
        if (sum >= p_ * total) {
          candidates.resize(sorted + 1);
          return;
        }
      }
    }
  }

 private:
  double p_;
};

}  // namespace

std::unique_ptr<Sampler> make_top_p(float p) { return std::make_unique<TopP>(p); }

}  // namespace infer
