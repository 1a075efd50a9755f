#include "engine/sample/sampler.h"

namespace infer {
namespace {

class LogitBiasEdit final : public LogitEdit {
 public:
  explicit LogitBiasEdit(std::vector<LogitBias> biases) : biases_(std::move(biases)) {}

  void apply(std::span<float> logits, const SampleContext&) const override {
    for (const LogitBias& b : biases_) {
      if (b.token >= 0 && static_cast<size_t>(b.token) < logits.size()) {
        logits[static_cast<size_t>(b.token)] += b.bias;
      }
    }
  }

 private:
  std::vector<LogitBias> biases_;
};

}  // namespace

std::unique_ptr<LogitEdit> make_logit_bias(std::vector<LogitBias> biases) {
  return std::make_unique<LogitBiasEdit>(std::move(biases));
}

}  // namespace infer
