#include <algorithm>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// "Don't repeat yourself" (p-e-w 2024): if the last n ≥ allowed tokens occurred earlier in the
/// history, the token that followed them there loses multiplier·base^(n − allowed).
class DryEdit final : public LogitEdit {
 public:
  explicit DryEdit(const SamplingParams& p)
      : multiplier_(p.dry_multiplier),
        base_(p.dry_base),
        allowed_(static_cast<size_t>(std::max(p.dry_allowed_length, 1))),
        last_(p.dry_penalty_last),
        breaks_(p.dry_breaks) {}

  void changes(const SampleContext& context, std::vector<LogitChange>& to) const override {
    to.clear();
    // The newest token first: what repeats is then a common beginning.
    const size_t seen = last_ < 0 ? context.history.size()
                                  : std::min(context.history.size(), static_cast<size_t>(last_));
    const std::vector<int32_t> x(context.history.rbegin(),
                                 context.history.rbegin() + static_cast<ptrdiff_t>(seen));
    size_t most = 0;
    while (most < x.size() && !breaks(x[most])) ++most;
    if (most < allowed_) return;

    const std::vector<size_t> same = common_beginnings(x);
    std::vector<std::pair<int32_t, size_t>> followers;  // and how long what they follow is
    for (size_t i = 1; i < x.size(); ++i) {
      const size_t length = std::min(same[i], most);
      if (length >= allowed_ && !breaks(x[i - 1])) followers.emplace_back(x[i - 1], length);
    }
    std::ranges::sort(followers);
    for (size_t i = 0; i < followers.size(); ++i) {
      const auto& [token, length] = followers[i];
      if (i + 1 < followers.size() && followers[i + 1].first == token) continue;
      const double penalty =
          multiplier_ * portable::pow(base_, static_cast<double>(length - allowed_));
      to.push_back({token, 1.0f, -static_cast<float>(std::min(penalty, 1e30))});
    }
  }

 private:
  bool breaks(int32_t token) const { return breaks_ && breaks_(token); }

  /// How many elements from i on equal those from 0 on (the Z algorithm, Gusfield 1997).
  static std::vector<size_t> common_beginnings(const std::vector<int32_t>& x) {
    std::vector<size_t> z(x.size(), 0);
    size_t begin = 0;
    size_t end = 0;  // x[begin, end) equals a beginning, and reaches furthest
    for (size_t i = 1; i < x.size(); ++i) {
      if (i < end) z[i] = std::min(end - i, z[i - begin]);
      while (i + z[i] < x.size() && x[z[i]] == x[i + z[i]]) ++z[i];
      if (i + z[i] > end) {
        begin = i;
        end = i + z[i];
      }
    }
    return z;
  }

  float multiplier_;
  double base_;
  size_t allowed_;  ///< length of a repeat without penalty
  int32_t last_;    ///< tokens to look back; −1: all
  std::function<bool(int32_t token)> breaks_;
};

}  // namespace

std::unique_ptr<LogitEdit> dry_step(const SamplingParams& params) {
  if (!(params.dry_multiplier > 0) || params.dry_penalty_last == 0) return nullptr;
  return std::make_unique<DryEdit>(params);
}

}  // namespace infer
