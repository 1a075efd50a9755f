// Attention gives every row the same bits however the rows are put into steps and however many
// threads there are, with contexts long enough for several chunks of keys.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/attention_run.h"

namespace infer {
namespace {

using test::AttentionSetup;
using test::Steps;

constexpr int32_t kSequences = 2;
constexpr int64_t kMostRows = 2048;

/// Both sequences one after the other in steps of `rows`, but for the last tokens, which come one
/// from each sequence a step.
Steps make_steps(int64_t tokens, int64_t rows, int64_t turns) {
  Steps steps;
  const auto whole = static_cast<int32_t>(tokens - turns);
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    for (int32_t slot = 0; slot < whole; ++slot) {
      if (slot % rows == 0) steps.emplace_back();
      steps.back().push_back({sequence, slot});
    }
  }
  for (int32_t slot = whole; slot < tokens; ++slot) steps.push_back({{0, slot}, {1, slot}});
  return steps;
}

test::AttentionRun run_on(const AttentionSetup& setup, int threads, const std::string& isa) {
  return {setup,
          kSequences,
          {1, 8, kMostRows},
          open_device("cpu", {.threads = threads, .isa = isa}).value()};
}

void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0);
}

TEST_CASE("attention: steps and threads change no bit") {
  const AttentionSetup setups[] = {
      {"groups of 4", 4, {1, 32, 32}, DType::f16, 1200},
      {"groups of 7, odd sizes", 7, {1, 21, 13}, DType::f32, 1200},
      {"window", 2, {1, 32, 32, 650}, DType::q8_0, 1300},
      {"values in keys, softcap", 3, {1, 40, 24, 0, true}, DType::bf16, 1100, 3.0f},
      {"heads of their own", 3, {3, 32, 32}, DType::q4_0, 1100},
  };
  for (const AttentionSetup& setup : setups) {
    CAPTURE(setup.name);
    const std::vector<float> whole =
        run_on(setup, 1, "scalar").results(make_steps(setup.tokens, setup.tokens, 0));
    CHECK(std::ranges::all_of(whole, [](float x) { return std::isfinite(x); }));
    for (const std::string& isa : open_device("cpu", {}).value()->info().isas) {
      // Plain code takes long: in steps of one size alone.
      if (isa == "scalar") {
        expect_same(run_on(setup, 3, isa).results(make_steps(setup.tokens, 337, 40)), whole);
        continue;
      }
      if (!open_device("cpu", {.threads = 1, .isa = isa})) continue;
      CAPTURE(isa);
      expect_same(run_on(setup, 1, isa).results(make_steps(setup.tokens, 1, 0)), whole);
      for (const int threads : {1, 2, 3, 7}) {
        CAPTURE(threads);
        expect_same(run_on(setup, threads, isa).results(make_steps(setup.tokens, 337, 40)), whole);
        if (threads != 3) continue;
        expect_same(run_on(setup, threads, isa).results(make_steps(setup.tokens, 5, 3)), whole);
      }
    }
  }
}

/// As many pages as make chunks grow, so that rows of one step are cut differently.
TEST_CASE("attention: chunks that grow with the context") {
  const AttentionSetup setup{"long", 1, {1, 4, 4}, DType::f32, kMostRows * 9};
  const Steps steps = make_steps(setup.tokens, kMostRows, 0);
  const std::vector<float> one = run_on(setup, 1, "").results(steps);
  Steps last = steps;
  for (int i = 0; i < 3; ++i) {  // the end of the second sequence again, in few rows
    last.push_back(
        {{1, static_cast<int32_t>(setup.tokens) - 2}, {1, static_cast<int32_t>(setup.tokens) - 1}});
    last.push_back({{1, 256 * kPageTokens - 1}, {1, 256 * kPageTokens}});
  }
  expect_same(run_on(setup, 3, "").results(last), one);
}

}  // namespace
}  // namespace infer
