#include <algorithm>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// Keeps the k largest.
class TopK final : public Sampler {
 public:
  explicit TopK(int32_t k) : k_(static_cast<size_t>(k)) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) override {
    if (candidates.size() <= k_) return;
    std::ranges::nth_element(candidates, candidates.begin() + static_cast<ptrdiff_t>(k_ - 1),
                             [](const Candidate& a, const Candidate& b) {
                               return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
                             });
    candidates.resize(k_);
  }

 private:
  size_t k_;
};

}  // namespace

std::unique_ptr<Sampler> top_k_step(const SamplingParams& params) {
  if (params.top_k <= 0) return nullptr;
  return std::make_unique<TopK>(params.top_k);
}

}  // namespace infer
