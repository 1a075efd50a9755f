// How many tokens are proposed: against an exhaustive search, and in a simulation of drafters that
// are good, useless, or change.
#include <doctest.h>

#include <chrono>
#include <cmath>
#include <random>

#include "engine/spec/speculator.h"

using namespace infer;

namespace {

/// A step of one row takes 1, each further row `further`.
constexpr double kFurther = 0.1;

/// Proposes tokens that are right with a chance that the test sets; each takes `cost`.
class FakeDrafter final : public Drafter {
 public:
  explicit FakeDrafter(double cost) : cost_(cost) {}
  const char* name() const override { return "fake"; }
  Status propose(std::span<DraftRequest* const> requests) override {
    for (DraftRequest* request : requests) {
      request->tokens.clear();
      while (static_cast<int64_t>(request->tokens.size()) < request->most) {
        request->tokens.push_back({1, 4});
        if (request->go_on && !request->go_on(*request)) break;
      }
      proposed_ += static_cast<int64_t>(request->tokens.size());
    }
    return {};
  }
  double seconds(int64_t, std::span<const int32_t>, int64_t tokens) const override {
    return cost_ * static_cast<double>(tokens);
  }
  int64_t proposed() const { return proposed_; }

 private:
  double cost_;
  int64_t proposed_ = 0;
};

/// Decodes with one drafter; times are those of the model of costs, not of a clock.
class Simulation {
 public:
  explicit Simulation(double cost, int64_t fixed = -1)
      : drafter_(new FakeDrafter(cost)), cost_(cost), drafting_(SamplingParams{}) {
    std::vector<std::unique_ptr<Drafter>> drafters;
    drafters.emplace_back(drafter_);
    speculator_ = std::make_unique<Speculator>(std::move(drafters), StepCosts(1, kFurther));
    drafting_.fixed = fixed;
    drafting_.wanted = 1 << 30;
  }

  /// The speed-up over so many tokens.
  double run(double acceptance, int64_t tokens) {
    const std::vector<int32_t> history(10, 1);
    double seconds = 0;
    int64_t made = 0;
    while (made < tokens) {
      const Speculator::Item item{&drafting_, history, 1000};
      const int64_t before = drafter_->proposed();
      speculator_->propose({&item, 1}, 0, 33);
      const auto count = static_cast<int64_t>(drafting_.proposal.size());
      const double step = 1 + kFurther * static_cast<double>(count);
      seconds += step + cost_ * static_cast<double>(drafter_->proposed() - before);
      speculator_->ran(1 + count, step);
      int64_t accepted = 0;
      while (accepted < count && uniform_(random_) < acceptance) ++accepted;
      speculator_->verified(drafting_, accepted);
      made += accepted + 1;
    }
    return static_cast<double>(made) / seconds;
  }
  const DraftStatistics& statistics() const { return drafting_.statistics; }

 private:
  FakeDrafter* drafter_;
  double cost_;
  std::unique_ptr<Speculator> speculator_;
  Drafting drafting_;
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> uniform_;
};

double formula(double a, int64_t n, double cost) {
  const auto gamma = static_cast<double>(n);
  const double tokens = a >= 1 ? gamma + 1 : (1 - std::pow(a, gamma + 1)) / (1 - a);
  return tokens / (1 + gamma * cost);
}

/// The most that any fixed number of tokens gives.
double best_fixed(double a, double cost) {
  double best = 1;
  for (int64_t n = 1; n <= kMostDrafted; ++n) best = std::max(best, formula(a, n, cost));
  return best;
}

}  // namespace

TEST_CASE("the number of tokens is the one with the highest rate") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform;
  for (int round = 0; round < 2000; ++round) {
    StepCosts costs(1, 0);
    for (int64_t n = 1; n <= 64; ++n) {
      costs.update(n, 1 + uniform(random) * static_cast<double>(n) / 8);
    }
    const auto rows = static_cast<int64_t>(1 + random() % 8);
    const DraftStep step{rows, static_cast<double>(rows), costs.seconds(rows)};
    std::vector<double> joint, drafting;
    double chance = 1, seconds = 0;
    for (uint32_t i = random() % 12; i > 0; --i) {
      joint.push_back(chance *= uniform(random));
      drafting.push_back(seconds += 0.1 * uniform(random));
    }
    const DraftChoice choice = best_draft(step, costs, joint, drafting);
    double best = step.rate();
    double tokens = step.tokens;
    for (size_t i = 0; i < joint.size(); ++i) {
      tokens += joint[i];
      best = std::max(best,
                      tokens / (costs.seconds(rows + static_cast<int64_t>(i) + 1) + drafting[i]));
    }
    CHECK(choice.step.rate() == doctest::Approx(best));
    CHECK(choice.step.rows == rows + choice.count);
  }
}

TEST_CASE("costs follow what is measured and never fall with the rows") {
  StepCosts costs(1, 0.1);
  CHECK(costs.seconds(1) == doctest::Approx(1));
  CHECK(costs.seconds(11) == doctest::Approx(2));
  CHECK(costs.seconds(80) == doctest::Approx(8.9));
  std::mt19937 random(2);
  // Twice as slow, and steps of up to 8 rows cost the same.
  const auto truth = [](int64_t n) { return n <= 8 ? 2.0 : 2.0 + 0.3 * double(n - 8); };
  for (int i = 0; i < 3000; ++i) {
    const auto n = static_cast<int64_t>(1 + random() % 16);
    costs.update(n, truth(n));
    for (int64_t k = 2; k <= 64; ++k) REQUIRE(costs.seconds(k) >= costs.seconds(k - 1));
  }
  for (int64_t n = 1; n <= 16; ++n) {
    CHECK(costs.seconds(n) == doctest::Approx(truth(n)).epsilon(0.1));
  }
  // One step during which others had the machine changes little.
  costs.update(4, 1000);
  CHECK(costs.seconds(4) < 1.2 * truth(4));
}

TEST_CASE("acceptance counts what was reached alone") {
  DraftAcceptance acceptance(1.0);
  const std::vector<DraftToken> proposal{{1, 2}, {2, 3}, {3, 3}, {4, 5}};
  acceptance.add(proposal, 2);
  CHECK(acceptance.confidence(2).tried == 1);
  CHECK(acceptance.confidence(3).tried == 2);
  CHECK(acceptance.confidence(3).accepted == 1);
  CHECK(acceptance.confidence(5).tried == 0);
  CHECK(acceptance.place(2).tried == 1);
  CHECK(acceptance.place(2).accepted == 0);
  CHECK(acceptance.place(3).tried == 0);
}

TEST_CASE("near the best fixed number of tokens, whatever the acceptance and the costs") {
  for (const double cost : {0.0, 0.05, 0.2, 0.4}) {
    for (const double acceptance : {0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97}) {
      CAPTURE(cost);
      CAPTURE(acceptance);
      Simulation simulation(cost);
      const double speedup = simulation.run(acceptance, 4000);
      const double best = best_fixed(acceptance, cost + kFurther);
      CHECK(speedup >= 0.98);
      CHECK(speedup >= 0.9 * best);
    }
  }
}

TEST_CASE("a drafter that becomes useless, and useful again, is noticed") {
  for (const double cost : {0.0, 0.1}) {
    CAPTURE(cost);
    Simulation simulation(cost);
    CHECK(simulation.run(0.9, 2000) > 0.85 * best_fixed(0.9, cost + kFurther));
    CHECK(simulation.run(0.0, 2000) >= 0.95);
    CHECK(simulation.run(0.9, 10000) > 0.7 * best_fixed(0.9, cost + kFurther));
  }
}

TEST_CASE("a useless drafter costs half a per cent at most once that is known") {
  for (const double cost : {0.0, 0.05, 0.2, 0.4}) {
    CAPTURE(cost);
    Simulation simulation(cost);
    simulation.run(0.0, 5000);  // until it is known
    CHECK(simulation.run(0.0, 50000) >= 0.995);
  }
}

namespace {

/// Says that a token costs next to nothing and takes far longer.
class LateDrafter final : public Drafter {
 public:
  static constexpr double kSeconds = 2e-3;
  const char* name() const override { return "late"; }
  Status propose(std::span<DraftRequest* const> requests) override {
    for (DraftRequest* request : requests) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSeconds);
      while (std::chrono::steady_clock::now() < end) {
      }
      request->tokens.push_back({1, 4});
    }
    ++calls;
    return {};
  }
  double seconds(int64_t, std::span<const int32_t>, int64_t) const override { return 1e-9; }
  int64_t calls = 0;
};

}  // namespace

TEST_CASE("a useless drafter that takes longer than it says is tried as seldom as that asks for") {
  auto* const drafter = new LateDrafter;
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.emplace_back(drafter);
  constexpr double kStep = 2e-3;
  Speculator speculator(std::move(drafters), StepCosts(kStep, kStep * kFurther));
  Drafting drafting{SamplingParams{}};
  drafting.wanted = 1 << 30;
  const std::vector<int32_t> history(10, 1);
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const Speculator::Item item{&drafting, history, 1000};
      speculator.propose({&item, 1}, 0, 33);
      const auto count = static_cast<double>(drafting.proposal.size());
      speculator.ran(1 + static_cast<int64_t>(count), kStep * (1 + kFurther * count));
      speculator.verified(drafting, 0);
    }
  };
  run(2000);
  const int64_t before = drafter->calls;
  constexpr int kSteps = 20000;
  run(kSteps);
  const auto calls = static_cast<double>(drafter->calls - before);
  CHECK(calls > 0);
  CHECK(calls * LateDrafter::kSeconds <= 0.006 * kStep * kSteps);
}

TEST_CASE("a fixed number is a fixed number") {
  Simulation simulation(0.1, 5);
  CHECK(simulation.run(0.5, 3000) ==
        doctest::Approx(formula(0.5, 5, 0.1 + kFurther)).epsilon(0.05));
  const DraftStatistics& s = simulation.statistics();
  CHECK(s.drafted == 5 * (s.tokens - s.accepted));
  CHECK(s.reached[0] == s.tokens - s.accepted);
  CHECK(static_cast<double>(s.held[0]) / static_cast<double>(s.reached[0]) ==
        doctest::Approx(0.5).epsilon(0.1));
  CHECK(s.reached[5] == 0);
}
