#include <algorithm>
#include <limits>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

class LogitBiasEdit final : public LogitEdit {
 public:
  explicit LogitBiasEdit(std::vector<LogitBias> biases) {
    std::ranges::stable_sort(biases, {}, &LogitBias::token);
    for (const LogitBias& b : biases) {
      if (b.bias == std::numeric_limits<float>::infinity()) continue;
      if (!changes_.empty() && changes_.back().token == b.token) {
        changes_.back().add += b.bias;
      } else {
        changes_.push_back({b.token, 1.0f, b.bias});
      }
    }
  }

  void changes(const SampleContext&, std::vector<LogitChange>& to) const override { to = changes_; }

 private:
  std::vector<LogitChange> changes_;
};

}  // namespace

std::unique_ptr<LogitEdit> make_logit_bias(std::vector<LogitBias> biases) {
  return std::make_unique<LogitBiasEdit>(std::move(biases));
}

}  // namespace infer
