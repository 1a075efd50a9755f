#include <algorithm>
#include <cmath>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

class XtcSampler final : public Sampler {
 public:
  XtcSampler(const Xtc& xtc, uint64_t seed) : xtc_(xtc), seed_(seed) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext& context) const override {
    if (uniform_draw(seed_, context.position) >= double{xtc_.chance}) return;
    const float best = std::ranges::max(candidates, {}, &Candidate::logit).logit;
    double total = 0;
    for (const Candidate& c : candidates) total += std::exp(double{c.logit} - best);
    const auto likely = [&](const Candidate& c) {
      return std::exp(double{c.logit} - best) >= double{xtc_.threshold} * total;
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
  Xtc xtc_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Sampler> make_xtc(const Xtc& xtc, uint64_t seed) {
  return std::make_unique<XtcSampler>(xtc, seed);
}

}  // namespace infer
