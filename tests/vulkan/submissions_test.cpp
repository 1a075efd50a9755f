// Steps are divided into submissions that are short enough for the watchdogs of drivers, the longer
// the context the more, and no division changes a bit.
#include "backends/vulkan/submissions.h"

#include <doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "engine/jobs/conformance.h"
#include "tests/attention_setups.h"
#include "tests/text_attention_run.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

using test::AttentionSetup;
using test::equal;
using test::in_turn;
using test::Steps;

int64_t submitted = 0;
PFN_vkQueueSubmit submit = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL counted_submit(VkQueue queue, uint32_t count,
                                              const VkSubmitInfo* infos, VkFence fence) {
  submitted += count;
  return submit(queue, count, infos, fence);
}

/// A device whose submissions are counted.
std::unique_ptr<Device> open_counted(const Tuning& tuning) {
  InstanceOptions options;
  options.replace_of_device = [](VolkDeviceTable& functions) {
    submit = functions.vkQueueSubmit;
    functions.vkQueueSubmit = counted_submit;
  };
  return test::opener({.instance = Instance::create(std::move(options)).value(), .tuning = tuning})(
             "vulkan", {})
      .value();
}

TEST_CASE("submissions: calls join while there is room, long ones are divided") {
  using Parts = std::vector<int64_t>;
  const auto divided = [](std::vector<double> work) { return submissions_of(work, 10); };
  CHECK(divided({}) == Parts{});
  CHECK(divided({1, 4, 5}) == Parts{0, 0, 0});
  CHECK(divided({1, 4, 6, 0, 4, 1}) == Parts{0, 0, 1, 0, 0, 1});
  CHECK(divided({10.5, 1, 1}) == Parts{2, 1, 0});
  CHECK(divided({3, 95, 0, 8}) == Parts{0, 10, 0, 1});
  CHECK(divided({1e300}) == Parts{1 << 20});
}

TEST_CASE("submissions: contexts are counted as powers of two") {
  Tuning tuning;
  CHECK(counted_context(0, tuning) == 16384);
  CHECK(counted_context(16384, tuning) == 16384);
  CHECK(counted_context(16448, tuning) == 32768);
  tuning.least_context = 0;
  CHECK(counted_context(0, tuning) == 1);
}

/// Rows by tiles, split and one by one.
std::vector<Tuning> tunings() {
  Tuning tiles;
  tiles.split_rows = 0;
  tiles.tile_queries = 4;
  Tuning handed = tiles;
  handed.tile_queries = 8;
  handed.handed_keys = true;
  Tuning split = tiles;
  split.split_rows = 100000;
  Tuning alone = tiles;
  alone.tile_queries = 0;
  return {tiles, handed, split, alone};
}

TEST_CASE("submissions: the longer the context, the more of them") {
  if (!present()) return;
  const AttentionSetup setup{"", 4, {1, 32, 32}, DType::f16, 2048};
  const auto step_at = [](int32_t from) {
    Steps steps(1);
    for (int32_t i = 0; i < 16; ++i) steps[0].push_back({0, from + i});
    return steps;
  };
  Tuning tuning = tunings().front();
  tuning.least_context = 64;
  tuning.submission = 16.0 * 4 * 64 * 64;  // one of 64 tokens
  AttentionSetup prompt = setup;
  prompt.roles = Roles::prompt;
  test::AttentionRun run(prompt, 1, {16}, open_counted(tuning));
  const auto count = [&](int32_t from) {
    submitted = 0;
    REQUIRE(run.run(step_at(from)).ok());
    return submitted;
  };
  const int64_t least = count(0);
  CHECK(count(40) == least);
  CHECK(count(100) == least + 2);    // the tiles in two parts, behind what stores
  CHECK(count(1000) == least + 16);  // a tile each
  CHECK(count(2000) == least + 16);
  CHECK(count(0) == least);  // and back
}

TEST_CASE("submissions: dividing attention changes no bit") {
  if (!present()) return;
  const AttentionSetup setups[] = {
      {"window", 2, {1, 32, 32, 90}, DType::q8_0, 140},
      {"prompt", 7, {1, 21, 13}, DType::f32, 70, 0, 0, Roles::prompt},
  };
  std::vector<Tuning> all = tunings();
  if (has_matrices()) all.push_back(with_matrices(tunings().front()));
  for (Tuning tuning : all) {
    for (const AttentionSetup& setup : setups) {
      CAPTURE(setup.name);
      const auto results = [&](double submission) {
        tuning.least_context = 1;
        tuning.submission = submission;
        test::AttentionRun run(setup, 2, {16, 70}, open_tuned(tuning).value());
        return run.results(in_turn(setup, 2, 70));
      };
      const std::vector<float> whole = results(1e11);
      CHECK(std::isfinite(whole.back()));
      CHECK(equal(results(1), whole));
    }
  }
}

TEST_CASE("submissions: dividing attention among the rows of texts changes no bit") {
  if (!present()) return;
  std::vector<Tuning> all = {Tuning()};
  if (has_matrices()) all.push_back(with_matrices({}));
  for (Tuning tuning : all) {
    const test::Texts texts(test::kTextHeads[0]);
    const auto results = [&](double submission) {
      tuning.submission = submission;
      return texts.run(*open_tuned(tuning).value(), test::kTextLengths, 0, Roles::prompt).value();
    };
    CHECK(equal(results(1), results(1e11)));
  }
}

TEST_CASE("submissions: every operation that is divided is right") {
  if (!present()) return;
  Tuning tuning = tunings().front();
  tuning.least_context = 1;
  tuning.submission = 1;
  tuning.vector_columns = 4;
  tuning.single_rows = 4;
  const auto device = open_tuned(tuning).value();
  int cases = 0;
  const SelftestReport report =
      run_conformance(*device, false, [&](const OpDef& op, const OpCase& c) {
        if (op.id == OpId::SelectSlots || op.id == OpId::PooledAttention) return cases++ % 6 == 0;
        const bool product = op.id == OpId::Matmul || op.id == OpId::MoeMatmul;
        return product && c.name.starts_with("q4_0") && c.name.find("rows 33") != c.name.npos;
      });
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  CHECK(report.unsupported == 0);
  CHECK(report.passed > 5);
}

}  // namespace
}  // namespace infer::vulkan
