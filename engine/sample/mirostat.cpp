#include <algorithm>
#include <cmath>

#include "engine/sample/sampler.h"

namespace infer {
namespace {

/// e^(logit − largest), whose sum is `total`.
double weight(const Candidate& c, float best) { return std::exp(double{c.logit} - best); }

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
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * (double{sorted[i].logit} - double{sorted[i + 1].logit});
    squares += t * t;
  }
  return squares > 0 ? products / squares : 1;
}

}  // namespace

void MirostatState::cut(std::vector<Candidate>& candidates, int64_t vocabulary) const {
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  const float best = candidates.front().logit;
  size_t keep = 1;
  if (settings_.version == 1) {
    const double s = zipf_exponent(candidates);
    const double epsilon = s - 1;
    const double sum = 1 - std::pow(static_cast<double>(vocabulary), -epsilon);
    const double k = std::pow(epsilon * std::exp2(limit_) / sum, 1 / s);
    if (k > 1) keep = static_cast<size_t>(std::min(k, static_cast<double>(candidates.size())));
  } else {
    const double total = total_weight(candidates, best);
    while (keep < candidates.size() &&
           -std::log2(weight(candidates[keep], best) / total) <= limit_) {
      ++keep;
    }
  }
  candidates.resize(std::max<size_t>(keep, 1));
}

void MirostatState::drawn(const std::vector<Candidate>& candidates, int32_t token) {
  const float best = candidates.front().logit;
  const auto at = std::ranges::find(candidates, token, &Candidate::id);
  if (at == candidates.end()) return;
  const double surprise = -std::log2(weight(*at, best) / total_weight(candidates, best));
  limit_ -= double{settings_.rate} * (surprise - double{settings_.target});
}

}  // namespace infer
