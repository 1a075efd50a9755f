// Edits of a few tokens' logits where they are not the first in the chain.
#include <algorithm>
#include <limits>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

class EditSampler final : public Sampler {
 public:
  explicit EditSampler(std::unique_ptr<LogitEdit> edit) : edit_(std::move(edit)) {}

  void apply(std::vector<Candidate>& candidates, const SampleContext& context) override {
    std::vector<LogitChange> changes;
    edit_->changes(context, changes);
    if (changes.empty()) return;
    for (Candidate& c : candidates) {
      const auto change = std::ranges::lower_bound(changes, c.id, {}, &LogitChange::token);
      if (change == changes.end() || change->token != c.id) continue;
      using Limits = std::numeric_limits<float>;
      c.logit = std::clamp(changed(c.logit, *change), Limits::lowest(), Limits::max());
    }
  }

 private:
  std::unique_ptr<LogitEdit> edit_;
};

}  // namespace

std::unique_ptr<Sampler> make_edit_sampler(std::unique_ptr<LogitEdit> edit) {
  return std::make_unique<EditSampler>(std::move(edit));
}

}  // namespace infer
