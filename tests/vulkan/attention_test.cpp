// Attention gives every row the same bits by each of its shaders, however the rows are put into
// steps, with contexts long enough for several pages in a chunk of keys.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/attention_setups.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

using test::AttentionSetup;
using test::equal;
using test::in_turn;
using test::Steps;

constexpr int32_t kSequences = 3;

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
        run_on(setup, with({"", 0, 0, false})).results(in_turn(setup, kSequences, 190));
    CHECK(std::ranges::all_of(rows_alone, [](float x) { return std::isfinite(x); }));
    for (const Shaders& shaders : kShaders) {
      CAPTURE(shaders.name);
      test::AttentionRun run = run_on(setup, with(shaders));
      for (const Steps& steps : {in_turn(setup, kSequences, 70), mixed(setup.from, setup.tokens)}) {
        const std::vector<float> found = run.results(steps);
        REQUIRE(found.size() == rows_alone.size());
        CHECK(std::memcmp(found.data(), rows_alone.data(), found.size() * sizeof(float)) == 0);
      }
    }
  }
}

/// Prompts by matrices. Compiling the shaders takes most of the time: so a run has several steps.
constexpr int32_t kTwo = 2;
test::AttentionRun by_matrices(const AttentionSetup& setup, int64_t split_rows,
                               bool holds_queries = false) {
  Tuning tuning = with_matrices({});
  tuning.holds_queries = holds_queries;
  tuning.split_rows = split_rows;
  return {setup, kTwo, {16, 200}, open_tuned(tuning).value()};
}

/// Shaders take every size that is a multiple of 16.
std::vector<AttentionSetup> all_prompt_setups() {
  std::vector<AttentionSetup> setups = test::prompt_setups();
  const auto add = [&](const char* name, int64_t heads, KvLayerShape kv, DType type) {
    setups.push_back({name, heads, kv, type, 70, 0, 0, Roles::prompt});
  };
  add("16, groups of 5", 5, {1, 16, 16}, DType::bf16);
  add("48", 6, {2, 48, 48}, DType::f16);
  add("144 and 80", 3, {1, 144, 80}, DType::f16);
  add("64 and 224, blocks", 2, {1, 64, 224}, DType::q4_0);
  add("160, blocks", 9, {1, 160, 160}, DType::q8_0);
  add("240", 9, {1, 240, 240}, DType::bf16);
  return setups;
}

TEST_CASE("attention of prompts: tiles are near to rows one by one, and steps change no bit") {
  if (!has_matrices()) return;
  for (AttentionSetup setup : all_prompt_setups()) {
    CAPTURE(setup.name);
    test::AttentionRun prompts = by_matrices(setup, 16);
    const std::vector<float> tiles = prompts.results(in_turn(setup, kTwo, 200));
    for (const size_t rows : {size_t{3}, size_t{64}, size_t{65}}) {
      CAPTURE(rows);
      CHECK(equal(prompts.results(in_turn(setup, kTwo, rows)), tiles));
    }
    setup.roles = Roles::generated;
    const double error =
        test::squared_error(tiles, by_matrices(setup, 16).results(in_turn(setup, kTwo, 200)));
    CHECK(error < 1e-6);   // of float16 in queries and weights
    CHECK(error > 1e-10);  // they are not the same shaders
  }
}

TEST_CASE("attention of prompts: queries that stay in registers") {
  if (!has_matrices()) return;
  for (AttentionSetup setup : test::prompt_setups()) {
    if (setup.kv.k_dim < 128 || setup.type == DType::bf16) continue;
    CAPTURE(setup.name);
    const Steps steps = in_turn(setup, kTwo, 65);
    const double error = test::squared_error(by_matrices(setup, 16, true).results(steps),
                                             by_matrices(setup, 16).results(steps));
    CHECK(error < 1e-6);  // of pieces of another length
  }
}

TEST_CASE("attention: values beyond float16 change no row before them") {
  if (!present()) return;
  for (const DType type : {DType::f16, DType::bf16}) {
    const AttentionSetup prompt{"", 4, {2, 32, 32}, type, 90, 0, 0, Roles::prompt};
    for (const Shaders& shaders : kShaders) {
      CAPTURE(shaders.name);
      test::check_overflow(prompt, [&](const AttentionSetup& setup) {
        return run_on(setup, with(shaders)).results(in_turn(setup, kSequences, 190));
      });
    }
    if (!has_matrices()) continue;
    test::check_overflow(prompt, [](const AttentionSetup& setup) {
      return by_matrices(setup, 16).results(in_turn(setup, kTwo, 200));
    });
  }
}

TEST_CASE("attention: rows of both roles in a step are as in steps of their own") {
  if (!has_matrices()) return;
  for (AttentionSetup setup : test::prompt_setups()) {
    if (setup.kv.k_dim != 32) continue;
    CAPTURE(setup.name);
    const Steps whole = in_turn(setup, kTwo, 200);
    const std::vector<float> prompt = by_matrices(setup, 16).results(whole);
    setup.roles = Roles::generated;
    const std::vector<float> generated = by_matrices(setup, 16).results(whole);
    setup.roles = Roles::both;
    for (const int64_t split_rows : {0, 1, 16}) {
      const std::vector<float> both =
          by_matrices(setup, split_rows).results(test::of_both_roles(setup));
      const auto half = static_cast<std::ptrdiff_t>(both.size() / 2);
      CHECK(equal({both.begin(), both.begin() + half}, {prompt.begin(), prompt.begin() + half}));
      CHECK(equal({both.begin() + half, both.end()}, {generated.begin() + half, generated.end()}));
    }
  }
}

}  // namespace
}  // namespace infer::vulkan
