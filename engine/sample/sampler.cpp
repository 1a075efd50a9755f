#include "engine/sample/sampler.h"

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

int32_t most_likely(std::span<const float> logits) {
  float best = -std::numeric_limits<float>::infinity();
  int32_t id = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best) {
      best = logits[i];
      id = static_cast<int32_t>(i);
    }
  }
  return id;
}

}  // namespace

double gumbel_noise(uint64_t seed, int64_t position, int32_t token) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t bits = scramble(seed + kGolden);
  bits = scramble(bits + static_cast<uint64_t>(position) * kGolden);
  bits = scramble(bits + static_cast<uint64_t>(token) * kGolden);
  const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
  return -std::log(-std::log(uniform));
}

SamplerChain::SamplerChain(const SamplingParams& params)
    : seed_(params.seed), greedy_(params.temperature <= 0) {
  if (!params.logit_bias.empty()) edits_.push_back(make_logit_bias(params.logit_bias));
  const Penalties& penalties = params.penalties;
  if (penalties.last != 0 &&
      (penalties.repeat != 1 || penalties.frequency != 0 || penalties.presence != 0)) {
    edits_.push_back(make_penalties(penalties));
  }
  if (greedy_) return;
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
  if (greedy_) return most_likely(logits);
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) candidates_.push_back({static_cast<int32_t>(i), logits[i]});
  }
  if (candidates_.empty()) return most_likely(logits);
  for (const std::unique_ptr<Sampler>& sampler : samplers_) sampler->apply(candidates_, context);
  double best = -std::numeric_limits<double>::infinity();
  int32_t id = candidates_.front().id;
  for (const Candidate& c : candidates_) {
    const double value = c.logit + gumbel_noise(seed_, position, c.id);
    if (value > best || (value == best && c.id < id)) {
      best = value;
      id = c.id;
    }
  }
  return id;
}

}  // namespace infer
