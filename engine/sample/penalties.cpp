#include <algorithm>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// Makes the tokens of the recent history less likely. The repeat penalty divides positive and
/// multiplies negative logits (Keskar et al. 2019).
class PenaltiesEdit final : public LogitEdit {
 public:
  explicit PenaltiesEdit(const SamplingParams& p)
      : repeat_(p.repeat_penalty),
        frequency_(p.frequency_penalty),
        presence_(p.presence_penalty),
        last_(p.penalty_last) {}

  void changes(const SampleContext& context, std::vector<LogitChange>& to) const override {
    to.clear();
    const size_t seen = last_ < 0 ? context.history.size()
                                  : std::min(context.history.size(), static_cast<size_t>(last_));
    std::vector<int32_t> recent(context.history.end() - static_cast<ptrdiff_t>(seen),
                                context.history.end());
    std::ranges::sort(recent);
    for (size_t i = 0; i < recent.size();) {
      size_t end = i + 1;
      while (end < recent.size() && recent[end] == recent[i]) ++end;
      to.push_back({recent[i], repeat_, -(static_cast<float>(end - i) * frequency_ + presence_)});
      i = end;
    }
  }

 private:
  float repeat_;
  float frequency_;
  float presence_;
  int32_t last_;  ///< tokens to look back; −1: all
};

}  // namespace

std::unique_ptr<LogitEdit> penalties_step(const SamplingParams& params) {
  const bool off =
      params.repeat_penalty == 1 && params.frequency_penalty == 0 && params.presence_penalty == 0;
  if (off || params.penalty_last == 0) return nullptr;
  return std::make_unique<PenaltiesEdit>(params);
}

}  // namespace infer
