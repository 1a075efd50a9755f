// Draws: that they follow their distribution, and how often a drafter's agree with the model's.
#include <doctest.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "engine/spec/draft_sampler.h"

using namespace infer;

namespace {

SamplingParams plain_sampling(uint64_t seed) {
  SamplingParams params;
  params.order = {Step::temperature};
  params.temperature = 1;
  params.seed = seed;
  return params;
}

std::vector<double> softmax(std::span<const float> logits) {
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(double{x}));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

/// Pearson's statistic over its degrees of freedom, as a number of standard deviations.
double deviation(std::span<const int64_t> counts, std::span<const double> p) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double chi2 = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    chi2 += std::pow(static_cast<double>(counts[i]) - total * p[i], 2) / (total * p[i]);
  }
  const auto freedom = static_cast<double>(p.size() - 1);
  return (chi2 - freedom) / std::sqrt(2 * freedom);
}

}  // namespace

TEST_CASE("a million draws follow the distribution, by a chi-squared test") {
  const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f, -3.0f, 1.5f, 1.4f, -0.5f, -2.0f, 0.7f};
  const std::vector<double> p = softmax(logits);
  // Along the positions of one text, and at one position of many.
  for (const bool along : {true, false}) {
    CAPTURE(along);
    std::vector<int64_t> counts(logits.size());
    SamplerChain one(plain_sampling(7));
    for (int64_t i = 0; i < 1'000'000; ++i) {
      const int32_t token =
          along ? one.sample(logits, {{}, i})
                : SamplerChain(plain_sampling(static_cast<uint64_t>(i))).sample(logits, {{}, 12});
      ++counts[static_cast<size_t>(token)];
    }
    CHECK(std::fabs(deviation(counts, p)) < 5);
  }
  // The test itself can fail: a distribution that is off by two parts in a hundred.
  std::vector<double> wrong = p;
  wrong[2] *= 1.02;
  const double sum = std::accumulate(wrong.begin(), wrong.end(), 0.0);
  std::vector<int64_t> counts;
  for (double& x : wrong) x /= sum;
  for (const double x : p) counts.push_back(std::llround(1e6 * x));
  CHECK(std::fabs(deviation(counts, wrong)) > 5);
}

TEST_CASE("a drafter with the model's noise agrees nearly as often as is possible") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  double worst = 1, sum = 0;
  int cases = 0;
  for (const float spread : {0.1f, 0.5f, 1.0f, 2.0f}) {
    for (const size_t vocabulary : {5, 50, 500}) {
      std::vector<float> model(vocabulary), draft(vocabulary);
      for (size_t i = 0; i < vocabulary; ++i) {
        model[i] = 2 * normal(random);
        draft[i] = model[i] + spread * normal(random);
      }
      const std::vector<double> p = softmax(model), q = softmax(draft);
      double most = 0;  // Σ min(p, q): the classic rule's, which no other can exceed
      for (size_t i = 0; i < vocabulary; ++i) most += std::min(p[i], q[i]);
      SamplerChain target(plain_sampling(5));
      DraftSampler sampler(plain_sampling(5));
      constexpr int kDraws = 20000;
      int agreed = 0;
      for (int i = 0; i < kDraws; ++i) {
        sampler.begin({}, i, nullptr);
        agreed += sampler.next(draft).token == target.sample(model, {{}, i}) ? 1 : 0;
      }
      const double rate = static_cast<double>(agreed) / kDraws;
      const double distance = 1 - most;
      std::printf("logits apart by %.1f, %3zu tokens: agree %.3f, classic %.3f\n",
                  static_cast<double>(spread), vocabulary, rate, most);
      // Daliri et al. 2025.
      CHECK(rate >= (1 - distance) / (1 + distance) - 0.02);
      CHECK(rate <= most + 0.02);
      worst = std::min(worst, rate / most);
      sum += rate / most;
      ++cases;
    }
  }
  std::printf("of the classic rule's acceptance: %.2f on average, at least %.2f\n", sum / cases,
              worst);
  CHECK(sum / cases > 0.9);
}

TEST_CASE(
    "a drafter of certain tokens is accepted as by the classic rule: with their probability") {
  const std::vector<float> model{1.0f, 0.0f, 2.0f, -1.0f};
  const std::vector<double> p = softmax(model);
  SamplerChain target(plain_sampling(9));
  for (int32_t drafted = 0; drafted < 4; ++drafted) {
    int agreed = 0;
    constexpr int kDraws = 200000;
    for (int i = 0; i < kDraws; ++i) agreed += target.sample(model, {{}, i}) == drafted ? 1 : 0;
    CHECK(static_cast<double>(agreed) / kDraws ==
          doctest::Approx(p[static_cast<size_t>(drafted)]).epsilon(0.03));
  }
}

TEST_CASE("confidences rise with the probability") {
  DraftSampler sampler(plain_sampling(1));
  int32_t last = -1;
  for (const float sure : {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 6.0f, 12.0f}) {
    std::vector<float> logits(8, 0.0f);
    logits[3] = sure;
    SamplingParams params = plain_sampling(1);
    params.temperature = 0;
    DraftSampler greedy(params);
    greedy.begin({}, 0, nullptr);
    const DraftToken token = greedy.next(logits);
    if (sure > 0) CHECK(token.token == 3);
    CHECK(token.confidence >= last);
    CHECK(token.confidence < kConfidenceLevels);
    last = token.confidence;
  }
  CHECK(last == kConfidenceLevels - 1);
}
