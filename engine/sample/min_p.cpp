#include <algorithm>
#include <cmath>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

class MinP final : public Sampler {
 public:
  explicit MinP(float p) : log_p_(std::log(p)) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) const override {
    const float least = std::ranges::max(candidates, {}, &Candidate::logit).logit + log_p_;
    std::erase_if(candidates, [least](const Candidate& c) { return c.logit < least; });
  }

 private:
  float log_p_;
};

}  // namespace

std::unique_ptr<Sampler> make_min_p(float p) { return std::make_unique<MinP>(std::min(p, 1.0f)); }

}  // namespace infer
