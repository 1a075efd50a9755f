// Attention gives every row the same bits however the rows are put into steps, split along the keys
// or not, with contexts long enough for several pages in a chunk of keys.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "tests/attention_setups.h"
#include "tests/cuda_driver.h"

namespace infer::cuda {
namespace {

using test::AttentionSetup;
using test::equal;
using test::in_turn;
using test::of_both_roles;
using test::Steps;

constexpr int32_t kSequences = 2;

std::vector<float> run_on(const AttentionSetup& setup, int64_t split_rows, const Steps& steps) {
  Tuning tuning;
  tuning.split_rows = split_rows;
  test::AttentionRun run(setup, kSequences, {16, 200},
                         CudaDevice::open(0, false, {.tuning = tuning}).value());
  return run.results(steps);
}

TEST_CASE("attention: steps and chunks change no bit") {
  constexpr int64_t kLong = 33 * kPageTokens;
  const AttentionSetup setups[] = {
      {"groups of 4", 4, {1, 32, 32}, DType::f16, 130},
      {"groups of 7, odd sizes", 7, {1, 21, 13}, DType::f32, 90},
      {"window", 2, {1, 32, 32, 70}, DType::q8_0, 150},
      {"values in keys, softcap", 3, {1, 40, 24, 0, true}, DType::bf16, 80, 3.0f},
      {"heads of their own", 3, {3, 32, 64}, DType::q4_0, 80},
      {"wide values", 2, {1, 6, 300}, DType::f16, 70},
      {"wider values", 4, {1, 8, 600}, DType::f16, 66},
      {"chunks that grow", 1, {1, 4, 4}, DType::f16, kLong, 0, kLong - 70},
      {"chunks of a window that grow",
       1,
       {1, 4, 4, 32 * kPageTokens - 9},
       DType::f16,
       kLong,
       0,
       kLong - 70},
  };
  for (const AttentionSetup& setup : setups) {
    CAPTURE(setup.name);
    const std::vector<float> whole = run_on(setup, 0, in_turn(setup, kSequences, 190));
    CHECK(std::ranges::all_of(whole, [](float x) { return std::isfinite(x); }));
    uint64_t seed = 5;
    for (const size_t rows : {size_t{190}, size_t{13}}) {
      CAPTURE(rows);
      test::cuda_driver().set_seed(seed++);
      const std::vector<float> split = run_on(setup, 100000, in_turn(setup, kSequences, rows));
      REQUIRE(split.size() == whole.size());
      CHECK(std::memcmp(split.data(), whole.data(), whole.size() * sizeof(float)) == 0);
    }
  }
  test::cuda_driver().set_seed(0);
}

/// Single rows. `ropes`: whether rope is a launch of its own.
std::vector<float> single_rows(const AttentionSetup& setup, bool fuse, bool& ropes) {
  Tuning tuning;
  tuning.fuse = fuse;
  test::AttentionRun run(setup, kSequences, {1},
                         CudaDevice::open(0, false, {.tuning = tuning}).value());
  std::vector<float> results = run.results(in_turn(setup, kSequences, 1));
  const auto& kernels = test::cuda_driver().last_graph().by_kernel;
  ropes = std::ranges::any_of(kernels,
                              [](const auto& kernel) { return kernel.first.starts_with("rope"); });
  return results;
}

TEST_CASE("attention: a single row turns its query and key and stores its token") {
  using enum op::Rope::Style;
  const auto setup = [](const char* name, int64_t heads, KvLayerShape kv, DType type, int64_t pairs,
                        op::Rope::Style style, int64_t tokens, int32_t from = 0) {
    return AttentionSetup{name, heads, kv, type, tokens, 0, from, Roles::generated, pairs, style};
  };
  const AttentionSetup setups[] = {
      setup("groups of 4", 8, {2, 32, 32}, DType::f16, 16, half_split, 70),
      setup("groups of 7, odd values", 7, {1, 32, 13}, DType::f32, 16, interleaved, 67),
      setup("a part is turned", 3, {3, 32, 64}, DType::bf16, 8, half_split, 66),
      setup("window", 2, {1, 32, 32, 20}, DType::f16, 16, interleaved, 90),
      setup("chunks that grow", 2, {1, 8, 8}, DType::f16, 4, half_split, 33 * kPageTokens,
            33 * kPageTokens - 5),
      setup("blocks", 2, {1, 32, 32}, DType::q8_0, 16, half_split, 66),
  };
  uint64_t seed = 3;
  for (const AttentionSetup& each : setups) {
    CAPTURE(each.name);
    bool ropes = false;
    const std::vector<float> apart = single_rows(each, false, ropes);
    CHECK(ropes);
    CHECK(std::ranges::all_of(apart, [](float x) { return std::isfinite(x); }));
    test::cuda_driver().set_seed(seed++);
    const std::vector<float> together = single_rows(each, true, ropes);
    CHECK(ropes == is_quantised(each.type));
    REQUIRE(together.size() == apart.size());
    CHECK(std::memcmp(together.data(), apart.data(), apart.size() * sizeof(float)) == 0);
  }
  test::cuda_driver().set_seed(0);
}

TEST_CASE(
    "attention of prompts: tiles are near to rows one by one, steps and orders change no bit") {
  for (AttentionSetup setup : test::prompt_setups()) {
    CAPTURE(setup.name);
    const std::vector<float> tiles = run_on(setup, 16, in_turn(setup, kSequences, 200));
    uint64_t seed = 3;
    for (const size_t rows : {size_t{1}, size_t{3}, size_t{64}, size_t{65}}) {
      // Small steps take long on an emulator.
      if (rows == 1 && (setup.kv.k_dim > 32 || setup.tokens - setup.from > 100)) continue;
      if (rows < 65 && setup.kv.k_dim > 64) continue;
      CAPTURE(rows);
      test::cuda_driver().set_seed(seed++);
      CHECK(equal(run_on(setup, 16, in_turn(setup, kSequences, rows)), tiles));
    }
    test::cuda_driver().set_seed(0);
    setup.roles = Roles::generated;
    const std::vector<float> rows = run_on(setup, 16, in_turn(setup, kSequences, 200));
    const double error = test::squared_error(tiles, rows);
    CHECK(error < 1e-6);   // of float16 in queries and weights
    CHECK(error > 1e-10);  // they are not the same kernels
  }
}

TEST_CASE("attention of prompts: values beyond float16 change no row before them") {
  for (const AttentionSetup& prompt : test::prompt_setups()) {
    if (prompt.kv.k_dim > 128 || prompt.from > 0) continue;
    CAPTURE(prompt.name);
    test::check_overflow(prompt, [](const AttentionSetup& setup) {
      return run_on(setup, 16, in_turn(setup, kSequences, 200));
    });
  }
}

TEST_CASE("attention: rows of both roles in a step are as in steps of their own") {
  for (AttentionSetup setup : test::prompt_setups()) {
    if (setup.kv.k_dim != 32 && setup.kv.k_dim != 128) continue;
    CAPTURE(setup.name);
    const Steps whole = in_turn(setup, kSequences, 200);
    const std::vector<float> prompt = run_on(setup, 16, whole);
    setup.roles = Roles::generated;
    const std::vector<float> generated = run_on(setup, 16, whole);
    setup.roles = Roles::both;
    const Steps mixed = of_both_roles(setup);
    for (const int64_t split_rows : {0, 16}) {
      const std::vector<float> both = run_on(setup, split_rows, mixed);
      const size_t half = both.size() / 2;
      CHECK(equal({both.begin(), both.begin() + half}, {prompt.begin(), prompt.begin() + half}));
      CHECK(equal({both.begin() + half, both.end()}, {generated.begin() + half, generated.end()}));
    }
  }
}

/// Lines of a source that are barriers of the block.
std::vector<int> barriers_of(const std::string& source) {
  std::ifstream in(std::string(INFER_SOURCE_DIR "/") + source);
  REQUIRE(in.good());
  std::vector<int> lines;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find(" sync_block();") != std::string::npos) lines.push_back(number);
  }
  return lines;
}

TEST_CASE("attention of prompts: no barrier can be left out") {
  const AttentionSetup setup{"", 2, {1, 32, 32}, DType::q8_0, 140, 0, 0, Roles::prompt};
  std::vector<int> lines = barriers_of("backends/cuda/ops/attention_tile.cu");
  const std::vector<int> shared = barriers_of("backends/cuda/device/attend_tile.h");
  lines.insert(lines.end(), shared.begin(), shared.end());
  CHECK(lines.size() == 7);
  std::string found;
  test::cuda_driver().set_listener([&](const std::string& mistake) { found = mistake; });
  for (const int line : lines) {
    CAPTURE(line);
    found.clear();
    test::cuda_driver().leave_out("attention_tile", line);
    test::AttentionRun run(setup, 1, {200}, CudaDevice::open(0, false, {}).value());
    Steps steps(1);
    for (int32_t slot = 0; slot < setup.tokens; ++slot) steps[0].push_back({0, slot});
    CHECK(run.run(steps).code() == StatusCode::device);
    CHECK(found.find("attention_tile_32_32") != std::string::npos);
  }
  test::cuda_driver().leave_out("", 0);
  test::restart_cuda_driver();
}

TEST_CASE("attention: no barrier before chunks are merged can be left out") {
  const AttentionSetup setup{
      "", 4, {1, 32, 64}, DType::f16, 60};  // a chunk: a block merges its own
  const Steps steps = in_turn(setup, kSequences, 1);
  const std::vector<float> expected = run_on(setup, 16, steps);
  const std::vector<int> lines = barriers_of("backends/cuda/device/arrival.h");
  REQUIRE(lines.size() == 2);
  test::cuda_driver().leave_out("attention_4_1", lines[0]);
  CHECK(run_on(setup, 16, steps) != expected);
  // Several: who comes last is known behind the second barrier alone.
  const AttentionSetup longer{"", 4, {1, 32, 64}, DType::f16, 70};
  std::string found;
  test::cuda_driver().set_listener([&](const std::string& mistake) { found = mistake; });
  test::cuda_driver().leave_out("attention_4_1", lines[1]);
  test::AttentionRun run(longer, kSequences, {16, 200}, CudaDevice::open(0, false, {}).value());
  CHECK(run.run(in_turn(longer, kSequences, 1)).code() == StatusCode::device);
  CHECK(found.find("attention_4_1") != std::string::npos);
  test::cuda_driver().leave_out("", 0);
  test::restart_cuda_driver();
}

}  // namespace
}  // namespace infer::cuda
