#include <algorithm>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

class PenaltiesEdit final : public LogitEdit {
 public:
  explicit PenaltiesEdit(const Penalties& penalties) : p_(penalties) {}

  void changes(const SampleContext& context, std::vector<LogitChange>& to) const override {
    to.clear();
    const size_t seen = p_.last < 0
                            ? context.history.size()
                            : std::min(context.history.size(), static_cast<size_t>(p_.last));
    std::vector<int32_t> recent(context.history.end() - static_cast<ptrdiff_t>(seen),
                                context.history.end());
    std::ranges::sort(recent);
    for (size_t i = 0; i < recent.size();) {
      size_t end = i + 1;
      while (end < recent.size() && recent[end] == recent[i]) ++end;
      to.push_back(
          {recent[i], p_.repeat, -(static_cast<float>(end - i) * p_.frequency + p_.presence)});
      i = end;
    }
  }

 private:
  Penalties p_;
};

}  // namespace

std::unique_ptr<LogitEdit> make_penalties(const Penalties& penalties) {
  return std::make_unique<PenaltiesEdit>(penalties);
}

}  // namespace infer
