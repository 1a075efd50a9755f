#include <algorithm>

#include "engine/core/portable_math.h"
#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// e^(logit − largest), whose sum is `total`.
double weight(const Candidate& c, float best) { return portable::exp(double{c.logit} - best); }

double total_weight(const std::vector<Candidate>& candidates, float best) {
  double total = 0;
  for (const Candidate& c : candidates) total += weight(c, best);
  return total;
}

/// The exponent of Zipf's law by least squares over the likeliest candidates (equation 8 of the
/// paper).
double zipf_exponent(const std::vector<Candidate>& sorted) {
  constexpr size_t kMost = 100;
  double products = 0;
  double squares = 0;
  for (size_t i = 0; i + 1 < std::min(kMost, sorted.size()); ++i) {
    const double t = portable::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * (double{sorted[i].logit} - double{sorted[i + 1].logit});
    squares += t * t;
  }
  return squares > 0 ? products / squares : 1;
}

/// Keeps the surprise (−log2 of the probability) of the drawn tokens near a target (Basu et al.
/// 2021). Version 1 derives the number of candidates to keep. Version 2 removes candidates whose
/// surprise is above a limit, which is adjusted after each draw.
class MirostatSampler final : public Sampler {
 public:
  explicit MirostatSampler(const SamplingParams& p)
      : version_(p.mirostat),
        target_(p.mirostat_target),
        rate_(p.mirostat_rate),
        limit_(2 * p.mirostat_target) {}

  /// Sorts the candidates that stay, largest logit first.
  void apply(std::vector<Candidate>& candidates, const SampleContext& context) override {
    std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    const float best = candidates.front().logit;
    size_t keep = 1;
    if (version_ == 1) {
      const double s = zipf_exponent(candidates);
      const double epsilon = s - 1;
      const double sum = 1 - portable::pow(static_cast<double>(context.vocabulary), -epsilon);
      const double k = portable::pow(epsilon * portable::exp2(limit_) / sum, 1 / s);
      if (k > 1) keep = static_cast<size_t>(std::min(k, static_cast<double>(candidates.size())));
    } else {
      const double total = total_weight(candidates, best);
      while (keep < candidates.size() &&
             -portable::log2(weight(candidates[keep], best) / total) <= limit_) {
        ++keep;
      }
    }
    candidates.resize(std::max<size_t>(keep, 1));
  }

  void drawn(const std::vector<Candidate>& candidates, int32_t token) override {
    const float best = candidates.front().logit;
    const auto at = std::ranges::find(candidates, token, &Candidate::id);
    if (at == candidates.end()) return;
    const double surprise = -portable::log2(weight(*at, best) / total_weight(candidates, best));
    limit_ -= rate_ * (surprise - target_);
  }

 private:
  int32_t version_;
  double target_;
  double rate_;  ///< of learning
  double limit_;
};

}  // namespace

std::unique_ptr<Sampler> make_mirostat(const SamplingParams& params) {
  if (params.mirostat == 0) return nullptr;
  return std::make_unique<MirostatSampler>(params);
}

}  // namespace infer
