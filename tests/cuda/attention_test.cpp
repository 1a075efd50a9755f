// Attention gives every row the same bits however the rows are put into steps, split along the keys
// or not, with contexts long enough for several pages in a chunk of keys.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cuda/device.h"
#include "tests/attention_run.h"
#include "tests/cuda_driver.h"

namespace infer::cuda {
namespace {

using test::AttentionSetup;
using test::Steps;

constexpr int32_t kSequences = 2;

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
    const std::vector<float> whole = run_on(setup, 0, in_turn(setup.from, setup.tokens, 190));
    CHECK(std::ranges::all_of(whole, [](float x) { return std::isfinite(x); }));
    uint64_t seed = 5;
    for (const size_t rows : {size_t{190}, size_t{13}}) {
      CAPTURE(rows);
      test::cuda_driver().set_seed(seed++);
      const std::vector<float> split =
          run_on(setup, 100000, in_turn(setup.from, setup.tokens, rows));
      REQUIRE(split.size() == whole.size());
      CHECK(std::memcmp(split.data(), whole.data(), whole.size() * sizeof(float)) == 0);
    }
  }
  test::cuda_driver().set_seed(0);
}

}  // namespace
}  // namespace infer::cuda
