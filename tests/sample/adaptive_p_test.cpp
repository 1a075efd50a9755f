// Adaptive-P against a plain computation of its formula, and what it is for.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/sample/sampler.h"
#include "tests/sample/steps.h"

using namespace infer;

namespace {

SamplingParams adaptive(float target, float decay = 0.9f) {
  SamplingParams p = no_steps();
  p.adaptive_target = target;
  p.adaptive_decay = decay;
  p.seed = 17;
  return p;
}

/// Different logits at each position.
std::vector<float> logits_at(int64_t position, size_t size = 50) {
  std::vector<float> logits(size);
  for (size_t i = 0; i < size; ++i) {
    const auto x = static_cast<uint64_t>(position) * 7919 + i * 104729;
    logits[i] = static_cast<float>(x % 1000) * 0.004f + (i == 3 ? 1.0f : 0.0f);
  }
  return logits;
}

std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> p;
  double total = 0;
  for (const double x : logits) total += p.emplace_back(std::exp(x));
  for (double& x : p) x /= total;
  return p;
}

}  // namespace

TEST_CASE("adaptive-p draws what its formula says") {
  for (const auto& [target, decay] :
       {std::pair(0.3, 0.9), {0.0, 0.5}, {1.0, 0.9}, {0.05, 0.0}, {0.5, 1.0}}) {
    CAPTURE(target);
    CAPTURE(decay);
    const SamplingParams params = adaptive(static_cast<float>(target), static_cast<float>(decay));
    SamplerChain chain(params);
    // All weights of the past, the newest last; before the first token there is the target alone.
    const double kept = std::min(double{params.adaptive_decay}, 0.99);
    std::vector<double> past;
    for (int64_t position = 0; position < 200; ++position) {
      const std::vector<float> logits = logits_at(position);
      const std::vector<double> p = softmax({logits.begin(), logits.end()});
      double weight = std::pow(kept, past.size()) / (1 - kept);
      double sum = weight * double{params.adaptive_target};
      for (size_t i = 0; i < past.size(); ++i) {
        const double w = std::pow(kept, past.size() - 1 - i);
        weight += w;
        sum += w * past[i];
      }
      const double wanted = 2 * double{params.adaptive_target} - sum / weight;
      const double t = wanted < 0 ? 0 : wanted > 1 ? 1 : wanted;
      size_t best = 0;
      double most = -1e300;
      for (size_t i = 0; i < p.size(); ++i) {
        const double d = std::abs(p[i] - t) / 0.3;
        const double logit = 5 - 10 * d * d / (1 + d);
        const double value = logit + gumbel_noise(params.seed, position, static_cast<int32_t>(i));
        if (value > most) {
          most = value;
          best = i;
        }
      }
      REQUIRE(chain.sample(logits, {{}, position}) == static_cast<int32_t>(best));
      past.push_back(p[best]);
    }
  }
}

TEST_CASE("adaptive-p holds the mean probability of what is drawn near its target") {
  // A third of the probability for one token, a tenth for two more, the rest in small parts.
  std::vector<float> logits(60, std::log(0.46f / 57));
  logits[5] = std::log(0.34f);
  logits[6] = logits[7] = std::log(0.1f);
  const auto mean = [&](SamplerChain chain) {
    double sum = 0;
    for (int i = 0; i < 4000; ++i) {
      sum += std::exp(double{logits[static_cast<size_t>(chain.sample(logits, {{}, i}))]});
    }
    return sum / 4000;
  };
  CHECK(mean(SamplerChain(adaptive(0.1f))) == doctest::Approx(0.1).epsilon(0.1));
  CHECK(mean(SamplerChain(adaptive(0.2f))) == doctest::Approx(0.2).epsilon(0.1));
  CHECK(mean(SamplerChain(adaptive(0.3f))) > 0.24);
}

TEST_CASE("adaptive-p is off below 0, under mirostat, and where temperature 0 leaves no choice") {
  const std::vector<float> logits = logits_at(1);
  CHECK(adaptive_p_step(adaptive(-1)) == nullptr);
  CHECK(adaptive_p_step(adaptive(0)) != nullptr);
  const auto drawn = [&](const SamplingParams& params) {
    SamplerChain chain(params);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 100; ++i) tokens.push_back(chain.sample(logits, {{}, i}));
    return tokens;
  };
  CHECK(drawn(adaptive(0)) != drawn(adaptive(-1)));
  SamplingParams other = adaptive(0);
  other.mirostat = 2;
  SamplingParams mirostat = adaptive(-1);
  mirostat.mirostat = 2;
  CHECK(drawn(other) == drawn(mirostat));
  other = adaptive(0);
  other.temperature = 0;
  const auto best = std::ranges::max_element(logits) - logits.begin();
  CHECK(drawn(other) == std::vector<int32_t>(100, static_cast<int32_t>(best)));
  // Last in the usual order: it chooses among what the others left.
  other = adaptive(0);
  other.top_k = 1;
  CHECK(drawn(other) == std::vector<int32_t>(100, static_cast<int32_t>(best)));
}
