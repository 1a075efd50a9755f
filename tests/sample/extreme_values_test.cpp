// Values at the ends of what samplers take: what is drawn is what their definitions say.
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

constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingParams plain(float temperature = 1) {
  SamplingParams p = no_steps();
  p.temperature = temperature;
  p.seed = 3;
  return p;
}

/// Allows the tokens of a mask, whatever came before.
class Allowed final : public Constraint {
 public:
  Allowed(int32_t size, const std::vector<int32_t>& tokens) : mask_(size) {
    for (const int32_t token : tokens) mask_.set(token);
  }
  bool allows(int32_t token) const override { return mask_.test(token); }
  const TokenMask& mask() override { return mask_; }
  bool accept(int32_t token) override { return mask_.test(token); }
  bool complete() const override { return false; }
  bool must_end() const override { return false; }
  std::unique_ptr<Constraint> clone() const override { return std::make_unique<Allowed>(*this); }

 private:
  TokenMask mask_;
};

/// How often each token is drawn.
std::map<int32_t, int> draws(const SamplingParams& params, const std::vector<float>& logits,
                             int count = 2000, Constraint* constraint = nullptr) {
  SamplerChain chain(params);
  std::map<int32_t, int> counts;
  for (int i = 0; i < count; ++i) ++counts[chain.sample(logits, {{}, i}, constraint)];
  return counts;
}

const std::vector<float> kLogits{1, 3, -2, 2.5f, -40};

}  // namespace

TEST_CASE("a bias of +infinity forces a token, at every temperature and with every sampler") {
  for (const float temperature : {0.0f, 1e-3f, 1.0f, 50.0f}) {
    for (const int32_t token : {0, 1, 4}) {
      CAPTURE(temperature);
      CAPTURE(token);
      SamplingParams params = plain(temperature);
      params.logit_bias = {{token, kInf}, {1, 5.0f}, {-1, kInf}, {99, kInf}};
      CHECK(draws(params, kLogits, 50) == std::map<int32_t, int>{{token, 50}});
      params.top_k = 2;
      params.min_p = 0.3f;
      params.top_p = 0.5f;
      CHECK(draws(params, kLogits, 50) == std::map<int32_t, int>{{token, 50}});
      params.mirostat = 2;
      CHECK(draws(params, kLogits, 50) == std::map<int32_t, int>{{token, 50}});
    }
  }
}

TEST_CASE("of several forced tokens the logits decide") {
  SamplingParams params = plain(0);
  params.logit_bias = {{0, kInf}, {3, kInf}, {4, kInf}};
  CHECK(draws(params, kLogits, 5) == std::map<int32_t, int>{{3, 5}});
  params.temperature = 1;
  const auto counts = draws(params, kLogits, 20000);
  const double share = 1 / (1 + std::exp(1.5));  // of 1 beside 2.5
  CHECK(counts.at(0) / 20000.0 == doctest::Approx(share).epsilon(0.05));
  CHECK(counts.at(0) + counts.at(3) == 20000);
  // Other edits count among them.
  params.logit_bias.push_back({0, 100.0f});
  CHECK(draws(params, kLogits, 50) == std::map<int32_t, int>{{0, 50}});
  // One that the model gives no number is forced all the same.
  params.logit_bias = {{2, kInf}};
  CHECK(draws(params, {1, 2, -kInf}, 5) == std::map<int32_t, int>{{2, 5}});
  CHECK(draws(params, {1, 2, std::nanf("")}, 5) == std::map<int32_t, int>{{2, 5}});
}

TEST_CASE("a constraint comes before a forced token") {
  for (const float temperature : {0.0f, 1.0f}) {
    CAPTURE(temperature);
    SamplingParams params = plain(temperature);
    Allowed allowed(5, {0, 2});
    params.logit_bias = {{1, kInf}, {2, kInf}};
    CHECK(draws(params, kLogits, 20, &allowed) == std::map<int32_t, int>{{2, 20}});
    // None of those forced is allowed: as without the bias.
    params.logit_bias = {{1, kInf}, {3, kInf}};
    SamplingParams without = params;
    without.logit_bias.clear();
    CHECK(draws(params, kLogits, 200, &allowed) == draws(without, kLogits, 200, &allowed));
    // All that is allowed is forbidden: nothing is left.
    params.logit_bias = {{0, -kInf}, {2, -kInf}};
    CHECK(draws(params, kLogits, 5, &allowed) == std::map<int32_t, int>{{-1, 5}});
  }
}

TEST_CASE("temperatures near 0 are as 0, whatever the sampler's order") {
  const std::vector<std::vector<float>> all = {{1, 3, -2, 2.5f},
                                               {-1, -3, -2, -2.5f},
                                               {0, -1, -2, -3},
                                               {1e-6f, 0, -1e-6f},
                                               {3, 40, 39.5f, -100}};
  for (const float temperature : {1e-5f, 1e-20f, 1e-37f, 1e-38f, 1e-40f, 1.4e-45f}) {
    for (const std::vector<float>& logits : all) {
      CAPTURE(temperature);
      if (temperature == 1e-5f && logits[0] == 1e-6f) continue;  // not near 0 for these
      const int32_t best = draws(plain(0), logits, 1).begin()->first;
      for (int order = 0; order < 4; ++order) {
        CAPTURE(order);
        SamplingParams params = plain(temperature);
        if (order == 1) params.top_k = 3;
        if (order == 2) params.order = {Step::temperature, Step::typical_p, Step::top_n_sigma};
        if (order == 3) params.order = {Step::temperature, Step::top_p, Step::min_p, Step::xtc};
        params.typical_p = order == 2 ? 0.9f : 1.0f;
        params.top_n_sigma = order == 2 ? 1.0f : 0.0f;
        params.top_p = order == 3 ? 0.9f : 1.0f;
        params.min_p = order == 3 ? 0.1f : 0.0f;
        CHECK(draws(params, logits, 30) == std::map<int32_t, int>{{best, 30}});
      }
      SamplingParams dynamic = plain(0);
      dynamic.dynamic_range = temperature;
      CHECK(draws(dynamic, logits, 30) == std::map<int32_t, int>{{best, 30}});
    }
  }
}

TEST_CASE("huge logits are divided by a temperature as if float had no end") {
  // 3e38 / 0.5 is beyond float, and so is what the second is behind: the first wins.
  CHECK(draws(plain(0.5f), {1e38f, 3e38f, 2.9e38f, -3e38f}, 30) == std::map<int32_t, int>{{1, 30}});
  CHECK(draws(plain(1e-30f), {1e9f, 1e9f - 64, 0}, 30) == std::map<int32_t, int>{{0, 30}});
  const auto even = draws(plain(1e-30f), {1e9f, 1e9f, 0}, 2000);
  CHECK(even.at(0) > 800);
  CHECK(even.at(1) > 800);
}

TEST_CASE("the ends of every sampler's range leave a token, and one that the definition allows") {
  const std::vector<float> logits = kLogits;
  const int32_t best = 1;
  const auto check_best = [&](const SamplingParams& p) {
    CHECK(draws(p, logits, 30) == std::map<int32_t, int>{{best, 30}});
  };
  const auto check_any = [&](const SamplingParams& p) {
    for (const auto& [token, count] : draws(p, logits, 200)) CHECK((token >= 0 && token < 5));
  };
  for (const float least : {0.0f, 1.4e-45f, 1e-38f}) {
    CAPTURE(least);
    SamplingParams p = plain();
    p.top_p = least;
    check_best(p);
    p = plain();
    p.min_p = least;
    check_any(p);
    p = plain();
    p.typical_p = least;
    CHECK(draws(p, logits, 30).size() == 1);
    p = plain();
    p.top_n_sigma = least;
    if (least > 0) check_best(p);
    p = plain();
    p.xtc_probability = 1;
    p.xtc_threshold = least;
    CHECK(draws(p, logits, 30) == std::map<int32_t, int>{{4, 30}});
    for (const int32_t version : {1, 2}) {
      for (const float rate : {0.0f, 1e-38f, 1e6f}) {
        p = plain();
        p.mirostat = version;
        p.mirostat_target = least;
        p.mirostat_rate = rate;
        check_any(p);
        p.mirostat_target = 1e6f;
        check_any(p);
      }
    }
  }
  for (const float most : {1e6f}) {
    SamplingParams p = plain(most);
    p.dynamic_range = most;
    p.dynamic_exponent = most;
    check_any(p);
    p = plain();
    p.min_p = 1;
    check_best(p);
    p = plain();
    p.top_n_sigma = most;
    check_any(p);
    p = plain();
    p.dry_multiplier = p.dry_base = most;
    p.dry_allowed_length = 1;
    p.repeat_penalty = p.frequency_penalty = p.presence_penalty = most;
    p.penalty_last = -1;
    SamplerChain chain(p);
    const std::vector<int32_t> history(500, 1);
    CHECK(chain.sample(logits, {history, 500}) != 1);
  }
}
