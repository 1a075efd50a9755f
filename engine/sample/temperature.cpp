#include "engine/sample/sampler.h"

namespace infer {
namespace {

class Temperature final : public Sampler {
 public:
  explicit Temperature(float t) : inverse_(1.0f / t) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) const override {
    for (Candidate& c : candidates) c.logit *= inverse_;
  }

 private:
  float inverse_;
};

}  // namespace

std::unique_ptr<Sampler> make_temperature(float t) { return std::make_unique<Temperature>(t); }

}  // namespace infer
