#include "engine/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/core/portable_math.h"

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
  static double of(double uniform) { return -portable::log(-portable::log(uniform)); }
  /// No two noises are further apart: of(1 − 2⁻⁵³) − of(2⁻⁵⁴) = 36.7 + 3.6.
  static constexpr float kRange = 42;

 private:
  uint64_t base_;
};

float log_of_min_p(const SamplingParams& params) {
  return static_cast<float>(portable::log(std::min(params.min_p, 1.0f)));
}

}  // namespace

double gumbel_noise(uint64_t seed, int64_t position, int32_t token) {
  return GumbelNoise::of(GumbelNoise(seed, position).uniform(token));
}

double uniform_draw(uint64_t seed, int64_t position) {
  return GumbelNoise(seed, position).uniform(-1);  // no token's
}

float changed(float logit, const LogitChange& change) {
  return (logit > 0 ? logit / change.repeat : logit * change.repeat) + change.add;
}

std::optional<Step> step_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Step> kNames[] = {
#define INFER_SAMPLER(name, makes, with_mirostat) {#name, Step::name},
#include "infer/samplers.def"
      {"typ_p", Step::typical_p}, {"temp", Step::temperature}};
  for (const auto& [known, step] : kNames) {
    if (known == name) return step;
  }
  return std::nullopt;
}

std::vector<Step> usual_order() {
  return {
#define INFER_SAMPLER(name, makes, with_mirostat) Step::name,
#include "infer/samplers.def"
  };
}

SamplerChain::SamplerChain(const SamplingParams& params) : params_(params) {
  if (!params.logit_bias.empty()) edits_.push_back(make_logit_bias(params.logit_bias));
  for (const LogitBias& b : params.logit_bias) {
    if (b.bias == std::numeric_limits<float>::infinity()) forced_.push_back(b.token);
  }
  for (const Step step : params.order) {
    switch (step) {
#define INFER_SAMPLER(name, makes, with_mirostat)                                    \
  case Step::name:                                                                   \
    if (with_mirostat || params.mirostat == 0) add(Step::name, name##_step(params)); \
    break;
#include "infer/samplers.def"
    }
  }
  if (params.mirostat != 0) {
    samplers_.push_back(make_mirostat(params));
    return;
  }
  if (active_.empty()) return;
  if (active_[0] == Step::top_k) shortcut_ = Shortcut::top_k;
  constexpr Step kBelow[] = {Step::top_p, Step::min_p, Step::temperature};
  if (std::ranges::is_sorted(active_) && std::ranges::includes(kBelow, active_) &&
      params.dynamic_range <= 0) {
    shortcut_ = Shortcut::floor;
  }
}

bool SamplerChain::has(Step step) const {
  return std::ranges::find(active_, step) != active_.end();
}

void SamplerChain::add(Step step, std::unique_ptr<LogitEdit> edit) {
  if (edit == nullptr) return;
  if (samplers_.empty()) {
    edits_.push_back(std::move(edit));
  } else {
    add(step, make_edit_sampler(std::move(edit)));
  }
}

void SamplerChain::add(Step step, std::unique_ptr<Sampler> sampler) {
  if (sampler == nullptr) return;
  active_.push_back(step);
  samplers_.push_back(std::move(sampler));
}

std::span<const float> SamplerChain::edited(std::span<const float> logits,
                                            const SampleContext& context) {
  if (edits_.empty()) return logits;
  edited_.assign(logits.begin(), logits.end());
  for (const std::unique_ptr<LogitEdit>& edit : edits_) {
    edit->changes(context, changes_);
    for (const LogitChange& change : changes_) {
      if (change.token < 0 || static_cast<size_t>(change.token) >= edited_.size()) continue;
      float& logit = edited_[static_cast<size_t>(change.token)];
      logit = changed(logit, change);
    }
  }
  return edited_;
}

std::span<const float> SamplerChain::masked(std::span<const float> logits, const TokenMask& mask) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (logits.data() != edited_.data()) edited_.assign(logits.begin(), logits.end());
  const std::span<const uint64_t> words = mask.words();
  for (size_t w = 0; w * 64 < edited_.size(); ++w) {
    const uint64_t allowed = w < words.size() ? words[w] : 0;
    if (allowed == ~uint64_t{0}) continue;
    const size_t end = std::min(edited_.size(), w * 64 + 64);
    for (size_t i = w * 64; i < end; ++i) {
      if ((allowed >> (i % 64) & 1) == 0) edited_[i] = kNever;
    }
  }
  return edited_;
}

/// Makes all but the forced tokens impossible, if one of those may come next.
bool SamplerChain::force(std::span<const float>& logits, const Constraint* constraint) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  constexpr float kLeast = -1e30f;  // for a logit that would forbid it
  bool any = false;
  for (const int32_t token : forced_) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
    if (constraint != nullptr && !constraint->allows(token)) continue;
    if (!any) only_forced_.assign(logits.size(), kNever);
    any = true;
    const float logit = logits[static_cast<size_t>(token)];
    only_forced_[static_cast<size_t>(token)] = std::isfinite(logit) ? logit : kLeast;
  }
  if (any) logits = only_forced_;
  return any;
}

LogitsNeeded SamplerChain::needed() const {
  constexpr int64_t kMostCounted = 256;  // more are seldom near the best
  if (!edits_.empty() || params_.mirostat != 0) return {};
  if (params_.greedy()) return {0, 1};
  if (shortcut_ == Shortcut::top_k && params_.top_k <= kMostCounted) return {16, params_.top_k};
  if (shortcut_ == Shortcut::floor && has(Step::min_p) && !has(Step::top_p)) {
    // A little further than the sampler looks, because the device rounds as well.
    return {1.0f - 1.001f * log_of_min_p(params_), 1};
  }
  return {};
}

int32_t SamplerChain::sample(std::span<const float> logits, const SampleContext& context,
                             Constraint* constraint) {
  logits = edited(logits, context);
  if (force(logits, constraint)) constraint = nullptr;  // which has been asked
  int32_t token = -1;
  if (constraint == nullptr || !constraint->is_free()) {
    token = choose(logits, context, constraint);
  } else {
    token = choose(logits, context, nullptr);
    if (token >= 0 && !constraint->allows(token)) {
      const int32_t other = choose(logits, context, constraint);
      if (other >= 0) token = other;
    }
  }
  if (token >= 0) chosen_ = logits[static_cast<size_t>(token)];
  return token;
}

float SamplerChain::last_probability() const {
  return exp_roughly(chosen_ - blocks_.best()) / static_cast<float>(blocks_.mass());
}

int32_t SamplerChain::choose(std::span<const float> logits, const SampleContext& context,
                             Constraint* constraint) {
  if (constraint != nullptr && !params_.greedy()) logits = masked(logits, constraint->mask());
  blocks_.scan(logits);
  if (params_.greedy()) {
    const int32_t best = blocks_.first_best();
    if (constraint == nullptr || constraint->allows(best)) return best;
    blocks_.scan(masked(logits, constraint->mask()));
    return blocks_.first_best();
  }
  const size_t done = choose_candidates();
  if (candidates_.empty()) return blocks_.first_best();
  SampleContext own = context;
  own.vocabulary = static_cast<int64_t>(logits.size());
  for (size_t i = done; i < samplers_.size(); ++i) samplers_[i]->apply(candidates_, own);
  const int32_t token = draw(context.position);
  for (const std::unique_ptr<Sampler>& sampler : samplers_) sampler->drawn(candidates_, token);
  return token;
}

size_t SamplerChain::choose_all() {
  blocks_.gather(std::numeric_limits<float>::lowest(), candidates_);
  std::erase_if(candidates_, [](const Candidate& c) { return !std::isfinite(c.logit); });
  return 0;
}

size_t SamplerChain::choose_candidates() {
  const float temperature = has(Step::temperature) ? params_.temperature : 1.0f;
  const float best = blocks_.best();
  // Divided by the temperature, too: as the sampler does it.
  if (!std::isfinite(best) || !std::isfinite(best * (1.0f / temperature))) return choose_all();
  switch (shortcut_) {
    case Shortcut::none: return choose_all();
    case Shortcut::top_k:
      // The k largest are among those within some distance of the best, if these are so many.
      for (const float reach : {4.0f, 16.0f, 64.0f, 256.0f, 1024.0f}) {
        blocks_.gather(best - reach, candidates_);
        if (candidates_.size() >= static_cast<size_t>(params_.top_k)) return 0;
      }
      return choose_all();
    case Shortcut::floor: break;
  }
  // Below the floor no noise makes a token win over the best, or min-p removes it. The last term is
  // far above what rounding does to logits divided by the temperature.
  const float range = GumbelNoise::kRange * temperature;
  float floor = best - range - 1e-6f * (std::fabs(best) + range);
  if (has(Step::min_p)) floor = std::max(floor, best + log_of_min_p(params_));
  if (has(Step::top_p)) return choose_nucleus(floor) ? 1 : choose_all();
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
