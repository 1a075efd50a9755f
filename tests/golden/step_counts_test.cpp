// What is fused into one call, and where threads meet: as many calls and barriers as ever.
#include "tests/step_counts.h"

namespace infer::test {
namespace {

const ModelCounts kOnCpu[] = {
    {"llama-q4_k", {13, 11, 15, 0, 0}, {13, 11, 15, 0, 0}},
    {"llama-f32", {26, 22, 30, 0, 0}, {26, 22, 30, 0, 0}},
    {"gemma3-f32", {117, 89, 131, 0, 0}, {117, 89, 131, 0, 0}},
    {"phi3-f32", {28, 24, 28, 0, 0}, {28, 24, 28, 0, 0}},
    {"qwen3moe-f32", {38, 30, 42, 0, 0}, {38, 30, 42, 0, 0}},
    {"gpt-oss-mxfp4", {34, 30, 38, 0, 0}, {34, 30, 38, 0, 0}},
    {"granitemoe-f32", {39, 35, 43, 0, 0}, {39, 35, 43, 0, 0}},
    {"deepseek2-v3-f32", {72, 69, 72, 0, 0}, {72, 69, 72, 0, 0}},
};

TEST_CASE("the CPU's steps have so many calls and barriers") {
  for (const ModelCounts& expected : kOnCpu) {
    const auto engine =
        Engine::load(data_path("golden/" + expected.name + ".gguf"), options_of_counts("cpu"));
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    check_counts(expected, **engine);
  }
}

}  // namespace
}  // namespace infer::test
