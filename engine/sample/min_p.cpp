#include <algorithm>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// Keeps those at least p times as likely as the most likely (Nguyen et al. 2024).
class MinP final : public Sampler {
 public:
  explicit MinP(float p) : log_p_(static_cast<float>(portable::log(p))) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) override {
    const float least = std::ranges::max(candidates, {}, &Candidate::logit).logit + log_p_;
    std::erase_if(candidates, [least](const Candidate& c) { return c.logit < least; });
  }

 private:
  float log_p_;
};

}  // namespace

std::unique_ptr<Sampler> min_p_step(const SamplingParams& params) {
  if (!(params.min_p > 0)) return nullptr;
  return std::make_unique<MinP>(std::min(params.min_p, 1.0f));
}

}  // namespace infer
