// Samplers beyond the usual ones, orders of samplers, log-probabilities.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "engine/sample/logprobs.h"
#include "engine/sample/sampler.h"
#include "tests/sample/steps.h"

using namespace infer;

namespace {

using Ids = std::vector<int32_t>;

std::vector<Candidate> candidates_of(const std::vector<double>& probabilities) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    all.push_back({static_cast<int32_t>(i), static_cast<float>(std::log(probabilities[i]))});
  }
  return all;
}

Ids ids_of(std::vector<Candidate> candidates) {
  Ids ids;
  for (const Candidate& c : candidates) ids.push_back(c.id);
  std::ranges::sort(ids);
  return ids;
}

std::map<int32_t, float> dry_of(const SamplingParams& dry, const Ids& history) {
  std::vector<LogitChange> changes;
  dry_step(dry)->changes({history}, changes);
  CHECK(std::ranges::is_sorted(changes, {}, &LogitChange::token));
  std::map<int32_t, float> penalties;
  for (const LogitChange& c : changes) {
    CHECK(c.repeat == 1.0f);
    CHECK(penalties.try_emplace(c.token, -c.add).second);
  }
  return penalties;
}

/// By its definition: every earlier place whose tokens before it equal those at the end.
std::map<int32_t, float> dry_by_definition(const SamplingParams& dry, const Ids& history) {
  std::map<int32_t, float> penalties;
  const Ids seen(
      dry.dry_penalty_last < 0 || static_cast<size_t>(dry.dry_penalty_last) > history.size()
          ? history.begin()
          : history.end() - dry.dry_penalty_last,
      history.end());
  const auto breaks = [&](int32_t t) { return dry.dry_breaks && dry.dry_breaks(t); };
  for (size_t next = 1; next < seen.size(); ++next) {
    size_t n = 0;
    while (n < next && seen[next - 1 - n] == seen[seen.size() - 1 - n] &&
           !breaks(seen[seen.size() - 1 - n])) {
      ++n;
    }
    if (n < static_cast<size_t>(dry.dry_allowed_length) || breaks(seen[next])) continue;
    const double penalty =
        dry.dry_multiplier *
        std::pow(double{dry.dry_base}, static_cast<double>(n) - dry.dry_allowed_length);
    float& worst = penalties[seen[next]];
    worst = std::max(worst, static_cast<float>(std::min(penalty, 1e30)));
  }
  return penalties;
}

}  // namespace

TEST_CASE("DRY: what would repeat a sequence loses the more the longer it is") {
  SamplingParams dry;
  dry.dry_multiplier = 1;
  dry.dry_base = 2;
  // 1 2 3 came before 9; the end is 1 2 3 again. 2 3 8: of length 2.
  const Ids history{1, 2, 3, 9, 5, 2, 3, 8, 1, 2, 3};
  const auto found = dry_of(dry, history);
  CHECK(found == std::map<int32_t, float>{{8, 1.0f}, {9, 2.0f}});
  dry.dry_breaks = [](int32_t token) { return token == 2; };
  CHECK(dry_of(dry, history).empty());  // only one token since the last break
  dry.dry_breaks = {};
  dry.dry_penalty_last = 4;
  CHECK(dry_of(dry, history).empty());
  CHECK(dry_of(dry, {}).empty());
  CHECK(dry_of(dry, {7}).empty());
}

TEST_CASE("DRY agrees with its definition on random histories") {
  uint64_t state = 7;
  const auto random = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 400; ++round) {
    SamplingParams dry;
    dry.dry_multiplier = 0.5f;
    dry.dry_base = 1.5f;
    dry.dry_allowed_length = static_cast<int32_t>(1 + random(4));
    dry.dry_penalty_last =
        static_cast<int32_t>(random(3) == 0 ? random(40) : 1000) - (random(2) == 0 ? 1 : 0);
    if (random(2) == 0) dry.dry_breaks = [](int32_t token) { return token == 2; };
    Ids history(random(60));
    for (int32_t& t : history) t = static_cast<int32_t>(random(3));
    if (dry.dry_penalty_last == 0) continue;
    CAPTURE(round);
    CHECK(dry_of(dry, history) == dry_by_definition(dry, history));
  }
}

TEST_CASE("a long repetition stays finite") {
  SamplingParams dry;
  dry.dry_multiplier = 1e6f;
  dry.dry_base = 1e6f;
  const auto found = dry_of(dry, Ids(5000, 3));
  REQUIRE(found.size() == 1);
  CHECK(std::isfinite(found.at(3)));
}

TEST_CASE("XTC leaves the least likely of the top choices") {
  const std::vector<double> p{0.1, 0.4, 0.05, 0.3, 0.15};
  const auto left = [&](float chance, float threshold, int64_t position) {
    std::vector<Candidate> all = candidates_of(p);
    SamplingParams params;
    params.xtc_probability = chance;
    params.xtc_threshold = threshold;
    params.seed = 5;
    xtc_step(params)->apply(all, {{}, position});
    return ids_of(all);
  };
  CHECK(left(1, 0.12f, 0) == Ids{0, 2, 4});
  CHECK(left(1, 0.35f, 0) == Ids{0, 1, 2, 3, 4});  // one top choice alone stays
  CHECK(left(1, 0.45f, 0) == Ids{0, 1, 2, 3, 4});
  int excluded = 0;
  constexpr int kPositions = 20000;
  for (int i = 0; i < kPositions; ++i) excluded += left(0.3f, 0.12f, i).size() == 3;
  CHECK(std::abs(excluded - 0.3 * kPositions) < 4 * std::sqrt(0.21 * kPositions));
}

TEST_CASE("top-n-sigma counts standard deviations from the largest logit") {
  // Mean −1, deviation √(10/5) = 1.414 below the largest of 1.
  std::vector<Candidate> all{{0, 1}, {1, 0}, {2, -1}, {3, -2}, {4, -3}};
  std::vector<Candidate> one = all;
  step_with(top_n_sigma_step, &SamplingParams::top_n_sigma, 0.8f)->apply(one, {});
  CHECK(ids_of(one) == Ids{0, 1});
  step_with(top_n_sigma_step, &SamplingParams::top_n_sigma, 2.0f)->apply(all, {});
  CHECK(ids_of(all) == Ids{0, 1, 2});
}

TEST_CASE("dynamic temperature goes from its lowest where one token is certain to its highest") {
  const auto dynamic = [](float range, float exponent) {
    SamplingParams params = no_steps();
    params.dynamic_range = range;
    params.dynamic_exponent = exponent;
    return temperature_step(params);
  };
  const auto ratio = [&](double second, float range, float exponent) {
    std::vector<Candidate> all{{0, 0.0f}, {1, static_cast<float>(second)}};
    dynamic(range, exponent)->apply(all, {});
    return all.size() < 2 ? 0.0f : all[1].logit;
  };
  CHECK(ratio(0, 0.5f, 1) == 0.0f);
  CHECK(ratio(-60, 0.5f, 1) == doctest::Approx(-120).epsilon(0.01));
  std::vector<Candidate> all{{0, 1.0f}, {1, 0.0f}, {2, -1.0f}};
  // p = 0.665, 0.245, 0.090: entropy 0.8324 of log 3 = 1.0986: 0.7577.
  dynamic(0.5f, 1.0f)->apply(all, {});
  CHECK(all[0].logit == doctest::Approx(1 / (0.5 + 0.7577)).epsilon(1e-3));
  std::vector<Candidate> certain{{0, 0.0f}, {1, -200.0f}};
  dynamic(2.0f, 1.0f)->apply(certain, {});
  CHECK(ids_of(certain) == Ids{0});  // a temperature of 0
}

TEST_CASE("mirostat holds the surprise near its target") {
  for (const int version : {1, 2}) {
    for (const float target : {2.0f, 4.0f}) {
      SamplingParams params;
      params.temperature = 1;
      params.mirostat = version;
      params.mirostat_target = target;
      params.seed = 11;
      SamplerChain chain(params);
      // Zipf's law over 5000 tokens.
      std::vector<float> logits(5000);
      double total = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        logits[i] = -1.1f * std::log(static_cast<float>(i + 1));
        total += std::exp(double{logits[i]});
      }
      double surprise = 0;
      constexpr int kDraws = 3000;
      for (int i = 0; i < kDraws; ++i) {
        const auto token = static_cast<size_t>(chain.sample(logits, {{}, i}));
        if (i >= kDraws / 2) surprise -= std::log2(std::exp(double{logits[token]}) / total);
      }
      surprise /= kDraws / 2.0;
      CAPTURE(version);
      CAPTURE(target);
      CAPTURE(surprise);
      // What is drawn is more likely among the candidates left than among all.
      CHECK(surprise > target);
      CHECK(surprise < target + 1.6);
    }
  }
}

TEST_CASE("samplers in any order: what they leave one after another") {
  uint64_t state = 3;
  const auto random = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 300; ++round) {
    SamplingParams p;
    p.seed = static_cast<uint64_t>(round);
    p.order = usual_order();
    for (size_t i = p.order.size(); i > 1; --i) std::swap(p.order[i - 1], p.order[random(i)]);
    p.order.resize(random(p.order.size() + 1));
    p.temperature = random(2) == 0 ? 0.7f : 1.3f;
    p.top_k = random(2) == 0 ? 40 : 0;
    p.top_p = random(2) == 0 ? 0.9f : 1.0f;
    p.min_p = random(2) == 0 ? 0.02f : 0.0f;
    p.typical_p = random(3) == 0 ? 0.8f : 1.0f;
    p.top_n_sigma = random(3) == 0 ? 2.5f : 0.0f;
    p.xtc_probability = random(2) == 0 ? 0.5f : 0.0f;
    p.xtc_threshold = 0.05f;
    p.repeat_penalty = random(2) == 0 ? 1.3f : 1.0f;
    p.dry_multiplier = random(2) == 0 ? 0.8f : 0.0f;
    std::vector<float> logits(700);
    for (float& x : logits) x = static_cast<float>(random(20000)) * 1e-3f - 10;
    const Ids history{1, 2, 3, 4, 1, 2, 3, 9, 1, 2, 3};
    const SampleContext context{history, round};

    std::vector<Candidate> all;
    for (size_t i = 0; i < logits.size(); ++i) all.push_back({static_cast<int32_t>(i), logits[i]});
    for (const Step step : p.order) apply_step(step, p, all, context);
    const auto value = [&](const Candidate& c) {
      return c.logit + gumbel_noise(p.seed, round, c.id);
    };
    const auto best = std::ranges::max_element(all, {}, value);
    CAPTURE(round);
    CHECK(SamplerChain(p).sample(logits, context) == best->id);
  }
}

TEST_CASE("names of steps") {
  CHECK(step_of("top_k") == Step::top_k);
  CHECK(step_of("typ_p") == Step::typical_p);
  CHECK(step_of("temp") == Step::temperature);
  CHECK(!step_of("").has_value());
  CHECK(!step_of("top-k").has_value());
}

TEST_CASE("log-probabilities are those of the model") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits{1.0f, 3.0f, kNan, 3.0f, -kInf, 2.0f};
  const double total = std::exp(-2.0) + 1 + 1 + std::exp(-1.0);
  const auto found = log_probabilities(logits, 5, 3);
  REQUIRE(found.size() == 4);
  CHECK(found[0].first == 5);
  CHECK(found[0].second == doctest::Approx(-1 - std::log(total)));
  CHECK(found[1].first == 1);
  CHECK(found[2].first == 3);
  CHECK(found[3].first == 5);
  CHECK(found[1].second == doctest::Approx(-std::log(total)));
  CHECK(log_probabilities(logits, 2, 0).front().second == -kInf);
  CHECK(log_probabilities(logits, 0, 99).size() == 7);
}
