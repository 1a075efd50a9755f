#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "engine/sample/sampler.h"
#include "tests/sample/steps.h"

using namespace infer;

namespace {

std::vector<Candidate> candidates_of(const std::vector<double>& probabilities) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    all.push_back({static_cast<int32_t>(i), static_cast<float>(std::log(probabilities[i]))});
  }
  return all;
}

std::vector<int32_t> kept(Sampler& sampler, const std::vector<double>& probabilities) {
  std::vector<Candidate> all = candidates_of(probabilities);
  sampler.apply(all, {});
  std::vector<int32_t> ids;
  for (const Candidate& c : all) ids.push_back(c.id);
  std::ranges::sort(ids);
  return ids;
}

using Ids = std::vector<int32_t>;

void edit_logits(const LogitEdit& edit, std::vector<float>& logits, const Ids& history = {}) {
  std::vector<LogitChange> changes;
  edit.changes({history}, changes);
  for (const LogitChange& c : changes) {
    if (c.token < 0 || static_cast<size_t>(c.token) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(c.token)];
    logit = changed(logit, c);
  }
}

SamplingParams plain(uint64_t seed) {
  SamplingParams p = no_steps();
  p.seed = seed;
  return p;
}

}  // namespace

TEST_CASE("filters keep what their definitions say") {
  const std::vector<double> p{0.1, 0.4, 0.05, 0.3, 0.15};
  CHECK(kept(*step_with(top_k_step, &SamplingParams::top_k, 2), p) == Ids{1, 3});
  CHECK(kept(*step_with(top_k_step, &SamplingParams::top_k, 9), p) == Ids{0, 1, 2, 3, 4});
  CHECK(kept(*step_with(top_p_step, &SamplingParams::top_p, 0.65f), p) == Ids{1, 3});
  CHECK(kept(*step_with(top_p_step, &SamplingParams::top_p, 0.75f), p) == Ids{1, 3, 4});
  CHECK(kept(*step_with(top_p_step, &SamplingParams::top_p, 0.0f), p) == Ids{1});
  CHECK(kept(*step_with(min_p_step, &SamplingParams::min_p, 0.3f), p) == Ids{1, 3, 4});
  CHECK(kept(*step_with(min_p_step, &SamplingParams::min_p, 1.0f), p) == Ids{1});
  // The entropy is 1.392; −log p: 2.30, 0.92, 3.00, 1.20, 1.90. Nearest first: 3, 1, 4, 0, 2.
  CHECK(kept(*step_with(typical_p_step, &SamplingParams::typical_p, 0.25f), p) == Ids{3});
  CHECK(kept(*step_with(typical_p_step, &SamplingParams::typical_p, 0.5f), p) == Ids{1, 3});
  CHECK(kept(*step_with(typical_p_step, &SamplingParams::typical_p, 0.8f), p) == Ids{1, 3, 4});
}

TEST_CASE("filters agree with a full sort on larger vocabularies") {
  std::vector<double> p(5000);
  uint64_t state = 7;
  for (double& x : p) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = std::exp(static_cast<double>(state >> 40) / (1 << 22));
  }
  std::vector<Candidate> sorted = candidates_of(p);
  std::ranges::stable_sort(sorted, std::greater<>(), &Candidate::logit);
  double total = 0;
  for (const Candidate& c : sorted) total += std::exp(double{c.logit});
  Ids nucleus;
  double sum = 0;
  for (const Candidate& c : sorted) {
    nucleus.push_back(c.id);
    if ((sum += std::exp(double{c.logit})) >= double{0.9f} * total) break;
  }
  std::ranges::sort(nucleus);
  CHECK(nucleus.size() > 256);
  CHECK(kept(*step_with(top_p_step, &SamplingParams::top_p, 0.9f), p) == nucleus);
  Ids first(100);
  std::ranges::transform(sorted.begin(), sorted.begin() + 100, first.begin(), &Candidate::id);
  std::ranges::sort(first);
  CHECK(kept(*step_with(top_k_step, &SamplingParams::top_k, 100), p) == first);
}

TEST_CASE("penalties and biases change logits as defined") {
  std::vector<float> logits{2, -2, 1, 0, 3};
  const std::vector<int32_t> history{4, 0, 1, 1, 9};
  SamplingParams penalties;
  penalties.repeat_penalty = 2.0f;
  penalties.frequency_penalty = 0.5f;
  penalties.presence_penalty = 0.25f;
  penalties.penalty_last = 4;
  edit_logits(*penalties_step(penalties), logits, history);
  CHECK(logits == std::vector<float>{2 / 2.0f - 0.75f, -2 * 2.0f - 1.25f, 1, 0, 3});
  penalties.penalty_last = -1;
  edit_logits(*penalties_step(penalties), logits, history);
  CHECK(logits[4] == 3 / 2.0f - 0.75f);
  edit_logits(*make_logit_bias({{2, 1.5f}, {-1, 7}, {99, 7}}), logits);
  CHECK(logits[2] == 2.5f);
}

TEST_CASE("draws follow the softmax and depend on seed and position alone") {
  const std::vector<float> logits{0.0f, std::log(2.0f), std::log(5.0f)};
  SamplerChain chain(plain(42));
  std::map<int32_t, int> counts;
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) ++counts[chain.sample(logits, {{}, i})];
  const double expected[] = {1 / 8.0, 2 / 8.0, 5 / 8.0};
  for (int id = 0; id < 3; ++id) {
    const double deviation = std::sqrt(expected[id] * (1 - expected[id]) / kDraws);
    CHECK(std::fabs(counts[id] / double{kDraws} - expected[id]) < 5 * deviation);
  }
  SamplerChain same(plain(42));
  SamplerChain other(plain(43));
  int differs = 0;
  for (int i = 100; i-- > 0;) {  // in another order
    const int32_t token = same.sample(logits, {{}, i});
    CHECK(token == chain.sample(logits, {{}, i}));
    differs += token != other.sample(logits, {{}, i});
  }
  CHECK(differs > 20);
}

TEST_CASE("a draw does not depend on candidates that filters removed") {
  // The noise belongs to the token: where the unfiltered winner survives, it wins.
  const std::vector<float> logits{1.0f, 0.9f, 0.8f, -3.0f, -4.0f, 0.7f};
  SamplingParams narrow = plain(5);
  narrow.top_k = 4;
  SamplerChain all(plain(5));
  SamplerChain some(narrow);
  for (int i = 0; i < 500; ++i) {
    const int32_t winner = all.sample(logits, {{}, i});
    if (winner != 3 && winner != 4) CHECK(some.sample(logits, {{}, i}) == winner);
  }
}

TEST_CASE("greedy takes the first of the largest, after the edits") {
  SamplingParams params;
  params.temperature = 0;
  CHECK(SamplerChain(params).sample(std::vector<float>{1, 3, 3, 2}, {{}, 0}) == 1);
  params.logit_bias = {{3, 5.0f}};
  CHECK(SamplerChain(params).sample(std::vector<float>{1, 3, 3, 2}, {{}, 0}) == 3);
  params.logit_bias = {{1, -std::numeric_limits<float>::infinity()}};
  CHECK(SamplerChain(params).sample(std::vector<float>{1, 3, 3, 2}, {{}, 0}) == 2);
}

TEST_CASE("logits that are no numbers never win and never hang") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  SamplerChain chain(plain(1));
  for (int i = 0; i < 50; ++i)
    CHECK(chain.sample(std::vector<float>{nan, 1, -inf, nan}, {{}, i}) == 1);
  CHECK(chain.sample(std::vector<float>{nan, nan}, {{}, 0}) == -1);
  SamplingParams greedy;
  greedy.temperature = 0;
  CHECK(SamplerChain(greedy).sample(std::vector<float>{nan, -5, nan}, {{}, 0}) == 1);
}
