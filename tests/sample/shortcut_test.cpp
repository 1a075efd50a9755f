// The chain passes over tokens that cannot be drawn. What it draws is held here against the plain
// definition: every sampler over all candidates, then the largest sum of logit and noise.
#include <doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/sample/sampler.h"
#include "tests/sample/steps.h"

namespace infer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Knuth's MMIX generator.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  double uniform() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state_ >> 33) + 0.5) * 0x1p-31;
  }
  /// Box & Muller 1958.
  double normal() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  }

 private:
  uint64_t state_;
};

int32_t naive_best(const std::vector<float>& logits) {
  int32_t id = -1;
  float best = -kInf;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > best)) continue;
    best = logits[i];
    id = static_cast<int32_t>(i);
  }
  return id;
}

int32_t by_definition(const SamplingParams& p, const std::vector<float>& logits, int64_t position) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) all.push_back({static_cast<int32_t>(i), logits[i]});
  }
  if (p.temperature <= 0 || all.empty()) return naive_best(logits);
  for (const Step step : p.order) apply_step(step, p, all, {});
  double best = -std::numeric_limits<double>::infinity();
  int32_t id = all.front().id;
  for (const Candidate& c : all) {
    const double value = c.logit + gumbel_noise(p.seed, position, c.id);
    if (value < best || (value == best && c.id > id)) continue;
    best = value;
    id = c.id;
  }
  return id;
}

/// Every way through the chain: each filter alone and together, cold and hot.
std::vector<SamplingParams> settings() {
  std::vector<SamplingParams> all;
  for (const float temperature : {0.0f, 1e-3f, 0.8f, 1.0f, 1.7f}) {
    for (const auto& [top_k, typical] : {std::pair(0, 1.0f), {1, 1.0f}, {40, 1.0f}, {0, 0.7f}}) {
      for (const float top_p : {0.0f, 0.5f, 0.95f, 0.9999999f, 1.0f}) {
        for (const float min_p : {0.0f, 0.05f, 1.0f}) {
          SamplingParams p;
          p.temperature = temperature;
          p.top_k = top_k;
          p.typical_p = typical;
          p.top_p = top_p;
          p.min_p = min_p;
          all.push_back(p);
        }
      }
    }
  }
  return all;
}

std::vector<std::vector<float>> many_logits(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<float> wide(size);
  for (float& x : wide) x = static_cast<float>(3 * random.normal());
  std::vector<float> peaked = wide;
  peaked[size / 3] = 30;
  peaked[size / 2] = 29.5f;
  std::vector<float> flat(size, -2.5f);
  std::vector<float> ties(size);
  for (float& x : ties) x = static_cast<float>(std::round(random.normal() * 2));
  std::vector<float> deep(size);  // most are too unlikely to count
  for (float& x : deep) x = static_cast<float>(-1000 * random.uniform());
  std::vector<float> broken = wide;
  for (size_t i = 0; i < size; i += 3) broken[i] = i % 2 == 0 ? kNan : -kInf;
  std::vector<float> endless = wide;
  endless[size / 2] = kInf;
  const std::vector<float> none(size, kNan);
  return {wide, peaked, flat, ties, deep, broken, endless, none};
}

TEST_CASE("what is drawn is what the definition says") {
  for (const size_t size : {1, 2, 300, 1000}) {
    for (const std::vector<float>& logits : many_logits(size, size)) {
      for (SamplingParams p : settings()) {
        p.seed = size;
        SamplerChain chain(p);
        for (int64_t position = 0; position < 5; ++position) {
          const int32_t drawn = chain.sample(logits, {{}, position});
          const int32_t expected = by_definition(p, logits, position);
          if (drawn == expected) continue;
          CAPTURE(size);
          CAPTURE(p.temperature);
          CAPTURE(p.top_k);
          CAPTURE(p.typical_p);
          CAPTURE(p.top_p);
          CAPTURE(p.min_p);
          CHECK(drawn == expected);
        }
      }
    }
  }
}

/// The row with only what is needed, if that is enough; otherwise as it is.
std::vector<float> reduced(const std::vector<float>& logits, const LogitsNeeded& needed) {
  const int32_t best = naive_best(logits);
  if (needed.all() || best < 0) return logits;
  std::vector<float> row(logits.size(), -kInf);
  int64_t kept = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!(logits[i] >= logits[static_cast<size_t>(best)] - needed.reach)) continue;
    if (!std::isfinite(logits[i])) return logits;
    row[i] = logits[i];
    ++kept;
  }
  return kept < needed.least ? logits : row;
}

TEST_CASE("what is not needed of a row does not change what is drawn") {
  int64_t shorter = 0;
  for (const size_t size : {1, 2, 300, 1000}) {
    for (const std::vector<float>& logits : many_logits(size, size)) {
      for (SamplingParams p : settings()) {
        p.seed = size;
        SamplerChain whole(p);
        SamplerChain part(p);
        const std::vector<float> row = reduced(logits, part.needed());
        if (row != logits) ++shorter;
        for (int64_t position = 0; position < 5; ++position) {
          if (part.sample(row, {{}, position}) == whole.sample(logits, {{}, position})) continue;
          FAIL_CHECK(size << " tokens, temperature " << p.temperature << ", top_k " << p.top_k
                          << ", typical_p " << p.typical_p << ", top_p " << p.top_p << ", min_p "
                          << p.min_p);
        }
      }
    }
  }
  CHECK(shorter > 1000);
}

TEST_CASE("all logits are needed for whatever looks at all of them") {
  const auto needs_all = [](auto set) {
    SamplingParams p;
    p.top_k = 40;
    set(p);
    return SamplerChain(p).needed().all();
  };
  CHECK_FALSE(needs_all([](SamplingParams&) {}));
  CHECK_FALSE(needs_all([](SamplingParams& p) { p.temperature = 0; }));
  CHECK(needs_all([](SamplingParams& p) { p.repeat_penalty = 1.1f; }));
  CHECK(needs_all([](SamplingParams& p) { p.dry_multiplier = 0.8f; }));
  CHECK(needs_all([](SamplingParams& p) { p.logit_bias = {{3, 1.0f}}; }));
  CHECK(needs_all([](SamplingParams& p) { p.mirostat = 2; }));
  CHECK(needs_all([](SamplingParams& p) { p.top_n_sigma = 1; }));
  CHECK(needs_all([](SamplingParams& p) { p.order = {Step::top_p, Step::top_k}; }));
  CHECK(needs_all([](SamplingParams& p) { p.top_k = 0; }));
  CHECK(needs_all([](SamplingParams& p) { p.top_k = 5000; }));
}

TEST_CASE("of a large vocabulary, too") {
  for (const std::vector<float>& logits : many_logits(150001, 3)) {
    for (const auto& [top_p, min_p] :
         {std::pair(0.95f, 0.05f), {1.0f, 0.05f}, {0.95f, 0.0f}, {1.0f, 0.0f}}) {
      SamplingParams p;
      p.top_p = top_p;
      p.min_p = min_p;
      p.seed = 11;
      SamplerChain chain(p);
      for (int64_t position = 0; position < 3; ++position) {
        CHECK(chain.sample(logits, {{}, position}) == by_definition(p, logits, position));
      }
    }
  }
}

TEST_CASE("a cut of top-p right at a token is where the definition has it") {
  // Four tokens of exactly a quarter each, and p so near to a half that a rough total cannot tell.
  const std::vector<float> logits(4, 1.5f);
  for (const float p : {0.5f, std::nextafter(0.5f, 0.0f), std::nextafter(0.5f, 1.0f), 0.500001f}) {
    SamplingParams params;
    params.top_p = p;
    params.min_p = 0;
    SamplerChain chain(params);
    for (int64_t position = 0; position < 200; ++position) {
      CHECK(chain.sample(logits, {{}, position}) == by_definition(params, logits, position));
    }
  }
}

TEST_CASE("the rough exponential and the mass keep their bounds") {
  double worst = 0;
  for (int i = 0; i < 50000; ++i) {
    const float rounded = -0.001738f * static_cast<float>(i);
    worst = std::max(worst, std::fabs(exp_roughly(rounded) / std::exp(double{rounded}) - 1));
  }
  CHECK(worst < 1e-6);
  CHECK(exp_roughly(0.0f) == 1);
  CHECK(exp_roughly(-1000.0f) < 2e-38f);
  CHECK(exp_roughly(kNan) < 2e-38f);
  for (const size_t size : {1, 255, 257, 100000}) {
    for (const std::vector<float>& logits : many_logits(size, 9)) {
      LogitBlocks blocks;
      blocks.scan(logits);
      CHECK(blocks.first_best() == naive_best(logits));
      if (!std::isfinite(blocks.best())) continue;
      double mass = 0;
      for (const float x : logits) {
        if (std::isfinite(x)) mass += std::exp(double{x} - blocks.best());
      }
      CHECK(blocks.mass() == doctest::Approx(mass).epsilon(LogitBlocks::kMassError / 2));
    }
  }
}

}  // namespace
}  // namespace infer
