#include <algorithm>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

class TopK final : public Sampler {
 public:
  explicit TopK(int32_t k) : k_(static_cast<size_t>(std::max(k, 1))) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext&) const override {
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

std::unique_ptr<Sampler> make_top_k(int32_t k) { return std::make_unique<TopK>(k); }

}  // namespace infer
