// Attention gives every row the same bits by each of its shaders, however the rows are put into
// steps, with contexts long enough for several pages in a chunk of keys.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/attention_run.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

using test::AttentionSetup;
using test::Steps;

constexpr int32_t kSequences = 3;

/// The sequences one after another in steps of so many rows, which take the end of one and the
/// start of the next together.
Steps in_turn(int32_t from, int64_t tokens, size_t rows) {
  Steps steps;
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    for (int32_t slot = from; slot < tokens; ++slot) {
      if (steps.empty() || steps.back().size() == rows) steps.emplace_back();
      steps.back().push_back({sequence, slot});
    }
  }
  return steps;
}

/// A prompt of each sequence, then tokens of all of them: steps of one row of each, and then of 1,
/// 9 and 30.
Steps mixed(int32_t from, int64_t tokens) {
  Steps steps;
  const auto prompt = static_cast<int32_t>(tokens - 70);
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    steps.emplace_back();
    for (int32_t slot = from; slot < prompt; ++slot) steps.back().push_back({sequence, slot});
  }
  int32_t done[kSequences] = {prompt, prompt, prompt};
  const int32_t rows[2][kSequences] = {{1, 1, 1}, {1, 9, 30}};
  for (int turn = 0; turn < 5; ++turn) {
    steps.emplace_back();
    for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
      for (int32_t i = 0; i < rows[turn / 3][sequence]; ++i) {
        steps.back().push_back({sequence, done[sequence]++});
      }
    }
  }
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    steps.emplace_back();
    while (done[sequence] < tokens) steps.back().push_back({sequence, done[sequence]++});
  }
  return steps;
}

/// On a device that is used so.
test::AttentionRun run_on(const AttentionSetup& setup, const Tuning& tuning) {
  return {setup, kSequences, {16, 200}, open_tuned(tuning).value()};
}

/// Rows on their own: whole or split along the keys. Tiles through a subgroup or shared memory,
/// also ones that rows of few heads fill.
struct Shaders {
  const char* name;
  int64_t split_rows;
  uint32_t tile_queries;
  bool handed;
};
constexpr Shaders kShaders[] = {{"split along the keys", 100000, 0, false},
                                {"tiles through a subgroup", 16, 8, true},
                                {"tiles in shared memory", 16, 32, false},
                                {"small tiles", 0, 4, false}};

Tuning with(const Shaders& shaders) {
  Tuning tuning;
  tuning.split_rows = shaders.split_rows;
  tuning.tile_queries = shaders.tile_queries;
  tuning.handed_keys = shaders.handed;
  return tuning;
}

TEST_CASE("attention: shaders and steps change no bit") {
  if (!present()) return;
  constexpr int64_t kLong = 33 * kPageTokens;
  const AttentionSetup setups[] = {
      {"groups of 4", 4, {1, 32, 32}, DType::f16, 130},
      {"groups of 7, odd sizes", 7, {1, 21, 13}, DType::f32, 130},
      {"window", 2, {1, 32, 32, 90}, DType::q8_0, 130},
      {"values in keys, softcap", 3, {1, 40, 24, 0, true}, DType::bf16, 110, 3.0f},
      {"heads of their own", 3, {3, 32, 64}, DType::q4_0, 110},
      {"wide values", 2, {1, 6, 300}, DType::f16, 100},
      {"chunks that grow", 1, {1, 4, 4}, DType::f16, kLong, 0, kLong - 130},
      {"chunks of a window that grow",
       1,
       {1, 4, 4, 32 * kPageTokens - 9},
       DType::f16,
       kLong,
       0,
       kLong - 130},
  };
  for (const AttentionSetup& setup : setups) {
    CAPTURE(setup.name);
    const std::vector<float> rows_alone =
        run_on(setup, with({"", 0, 0, false})).results(in_turn(setup.from, setup.tokens, 190));
    CHECK(std::ranges::all_of(rows_alone, [](float x) { return std::isfinite(x); }));
    for (const Shaders& shaders : kShaders) {
      CAPTURE(shaders.name);
      test::AttentionRun run = run_on(setup, with(shaders));
      for (const Steps& steps :
           {in_turn(setup.from, setup.tokens, 70), mixed(setup.from, setup.tokens)}) {
        const std::vector<float> found = run.results(steps);
        REQUIRE(found.size() == rows_alone.size());
        CHECK(std::memcmp(found.data(), rows_alone.data(), found.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace infer::vulkan
