#include "engine/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace infer {
namespace {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

/// The noise of all tokens at a position.
class GumbelNoise {
 public:
  GumbelNoise(uint64_t seed, int64_t position)
      : base_(scramble(scramble(seed + kGolden) + static_cast<uint64_t>(position) * kGolden)) {}

  /// Even in (0, 1). The largest would be rounded to 1, whose noise is infinite.
  double uniform(int32_t token) const {
    const uint64_t bits = scramble(base_ + static_cast<uint64_t>(token) * kGolden);
    return std::min((static_cast<double>(bits >> 11) + 0.5) * 0x1p-53, 1 - 0x1p-53);
  }
  static double of(double uniform) { return -std::log(-std::log(uniform)); }
  /// No two noises are further apart: of(1 − 2⁻⁵³) − of(2⁻⁵⁴) = 36.7 + 3.6.
  static constexpr float kRange = 42;

 private:
  uint64_t base_;
};

}  // namespace

double gumbel_noise(uint64_t seed, int64_t position, int32_t token) {
  return GumbelNoise::of(GumbelNoise(seed, position).uniform(token));
}

SamplerChain::SamplerChain(const SamplingParams& params) : params_(params) {
  if (!params.logit_bias.empty()) edits_.push_back(make_logit_bias(params.logit_bias));
  const Penalties& penalties = params.penalties;
  if (penalties.last != 0 &&
      (penalties.repeat != 1 || penalties.frequency != 0 || penalties.presence != 0)) {
    edits_.push_back(make_penalties(penalties));
  }
  if (params.temperature <= 0) return;
  if (params.top_k > 0) samplers_.push_back(make_top_k(params.top_k));
  if (params.typical_p < 1) samplers_.push_back(make_typical(params.typical_p));
  if (params.top_p < 1) samplers_.push_back(make_top_p(params.top_p));
  if (params.min_p > 0) samplers_.push_back(make_min_p(params.min_p));
  if (params.temperature != 1) samplers_.push_back(make_temperature(params.temperature));
}

int32_t SamplerChain::sample(std::span<const float> logits, int64_t position,
                             const SampleContext& context) {
  if (!edits_.empty()) {
    edited_.assign(logits.begin(), logits.end());
    for (const std::unique_ptr<LogitEdit>& edit : edits_) edit->apply(edited_, context);
    logits = edited_;
  }
  blocks_.scan(logits);
  if (params_.temperature <= 0) return blocks_.first_best();
  const size_t done = choose_candidates();
  if (candidates_.empty()) return blocks_.first_best();
  for (size_t i = done; i < samplers_.size(); ++i) samplers_[i]->apply(candidates_, context);
  return draw(position);
}

size_t SamplerChain::choose_candidates() {
  const auto all = [&] {
    blocks_.gather(std::numeric_limits<float>::lowest(), candidates_);
    std::erase_if(candidates_, [](const Candidate& c) { return !std::isfinite(c.logit); });
    return size_t{0};
  };
  const float best = blocks_.best();
  // Divided by the temperature, too: as the sampler does it.
  if (!std::isfinite(best) || !std::isfinite(best * (1.0f / params_.temperature))) return all();
  if (params_.top_k > 0) {
    // The k largest are among those within some distance of the best, if these are so many.
    for (const float reach : {4.0f, 16.0f, 64.0f, 256.0f, 1024.0f}) {
      blocks_.gather(best - reach, candidates_);
      if (candidates_.size() >= static_cast<size_t>(params_.top_k)) return 0;
    }
    return all();
  }
  if (params_.typical_p < 1) return all();

  // Below the floor no noise makes a token win over the best, or min-p removes it. The last term is
  // far above what rounding does to logits divided by the temperature.
  const float range = GumbelNoise::kRange * params_.temperature;
  float floor = best - range - 1e-6f * (std::fabs(best) + range);
  if (params_.min_p > 0) floor = std::max(floor, best + std::log(std::min(params_.min_p, 1.0f)));
  if (params_.top_p < 1) return choose_nucleus(floor) ? 1 : all();
  blocks_.gather(floor, candidates_);
  return 0;
}

/// Top-p among the tokens from the floor on. Where to cut depends on the probability of all tokens
/// together, which is known but nearly: false where a cut is too near to tell.
bool SamplerChain::choose_nucleus(float floor) {
  const float best = blocks_.best();
  const double enough = double{params_.top_p} * blocks_.mass();
  for (float reach = 8;; reach *= 4) {
    const float least = std::max(floor, best - reach);
    blocks_.gather(least, candidates_);
    if (least == floor) {
      double rough = 0;
      for (const Candidate& c : candidates_) rough += exp_roughly(c.logit - best);
      // It surely reaches below the floor: no need to sort.
      if (rough < enough * (1 - 3 * LogitBlocks::kMassError)) return true;
    }
    switch (cut_nucleus(candidates_, best, enough * (1 - LogitBlocks::kMassError),
                        enough * (1 + LogitBlocks::kMassError))) {
      case Nucleus::cut: return true;
      case Nucleus::unsure: return false;
      case Nucleus::open:
        if (least == floor) return true;  // all of these are in it
    }
  }
}

int32_t SamplerChain::draw(int64_t position) const {
  const GumbelNoise noise(params_.seed, position);
  double best = -std::numeric_limits<double>::infinity();
  int32_t id = candidates_.front().id;
  const auto visit = [&](const Candidate& c) {
    const double value = c.logit + GumbelNoise::of(noise.uniform(c.id));
    if (value > best || (value == best && c.id < id)) {
      best = value;
      id = c.id;
    }
  };
  // Most tokens of a large vocabulary lose by far, which is seen without the logarithms: a noise is
  // above d only if −log u < exp(−d), and 1 − u is less than −log u. The likeliest comes first, to
  // be the one to beat.
  const auto likeliest = std::ranges::max_element(candidates_, {}, &Candidate::logit);
  visit(*likeliest);
  // Beyond this the sum of logit and noise is rounded too coarsely for the margin taken.
  const bool fine = std::fabs(best) < 1e9;
  for (const Candidate& c : candidates_) {
    const auto deficit = static_cast<float>(c.logit - best);
    if (fine && deficit < 0 && 1 - noise.uniform(c.id) > 1.001 * exp_roughly(deficit)) continue;
    visit(c);
  }
  return id;
}

}  // namespace infer
