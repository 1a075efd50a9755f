#include <algorithm>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// "Exclude top choices" (p-e-w 2024): with probability `xtc_probability`, removes all tokens that
/// are at least `xtc_threshold` likely, except the least likely of them. Above a threshold of one
/// half nothing is ever removed.
class XtcSampler final : public Sampler {
 public:
  explicit XtcSampler(const SamplingParams& p)
      : chance_(p.xtc_probability), threshold_(p.xtc_threshold), seed_(p.seed) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext& context) override {
    if (uniform_draw(seed_, context.position) >= chance_) return;
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double total = 0;
    for (const Candidate& c : candidates) total += portable::exp(double{c.logit} - best);
    const auto likely = [&](const Candidate& c) {
      return portable::exp(double{c.logit} - best) >= threshold_ * total;
    };
    const Candidate* least = nullptr;
    for (const Candidate& c : candidates) {
      if (!likely(c)) continue;
      if (least == nullptr || c.logit < least->logit ||
          (c.logit == least->logit && c.id > least->id)) {
        least = &c;
      }
    }
    if (least == nullptr) return;
    const int32_t stays = least->id;
    std::erase_if(candidates, [&](const Candidate& c) { return c.id != stays && likely(c); });
  }

 private:
  double chance_;
  double threshold_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Sampler> xtc_step(const SamplingParams& params) {
  if (!(params.xtc_probability > 0 && params.xtc_threshold <= 0.5f)) return nullptr;
  return std::make_unique<XtcSampler>(params);
}

}  // namespace infer
