// What is fused into one dispatch, and where dispatches wait for others: as many of both as ever,
// in the tuning of a GPU with and without fusion.
#include "tests/step_counts.h"

#include "tests/kept_devices.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

const test::ModelCounts kFused[] = {
    {"llama-q4_k", {15, 14, 19, 15, 13}, {12, 11, 15, 13, 11}},
    {"gemma3-f32", {110, 102, 138, 110, 101}, {89, 81, 110, 96, 87}},
    {"qwen3moe-f32", {36, 33, 44, 40, 36}, {32, 29, 38, 34, 30}},
    {"gpt-oss-mxfp4", {32, 31, 40, 36, 34}, {28, 27, 34, 30, 28}},
    {"deepseek2-v3-f32", {77, 59, 82, 81, 62}, {68, 50, 68, 71, 52}},
};
const test::ModelCounts kUnfused[] = {
    {"llama-q4_k", {21, 16, 21, 22, 15}, {21, 16, 21, 23, 16}},
    {"qwen3moe-f32", {47, 36, 47, 55, 43}, {47, 36, 47, 51, 37}},
};

void check(const Tuning& tuning, const test::ModelCounts& expected) {
  const auto engine = load_tuned(test::data_path("golden/" + expected.name + ".gguf"),
                                 test::options_of_counts("vulkan"), tuning);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  test::check_counts(expected, **engine);
}

TEST_CASE("Vulkan's steps have so many dispatches and barriers") {
  if (!present()) return;
  const test::KeptDevices kept;
  Tuning tuning;
  tuning.parts = 4;
  for (const test::ModelCounts& expected : kFused) check(tuning, expected);
  tuning.fuse = false;
  for (const test::ModelCounts& expected : kUnfused) check(tuning, expected);
}

}  // namespace
}  // namespace infer::vulkan
