// What is fused into one call, and where threads meet: as many calls and barriers as ever.
#include "tests/step_counts.h"
#include "engine/core/thread_pool.h"

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
    {"deepseek2-v3-f32", {72, 66, 72, 0, 0}, {72, 66, 72, 0, 0}},
};

TEST_CASE("the CPU's steps have so many calls and barriers") {
  for (const ModelCounts& expected : kOnCpu) {
    const auto engine =
        Engine::load(data_path("golden/" + expected.name + ".gguf"), options_of_counts("cpu"));
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    check_counts(expected, **engine);
  }
}

/// Whether more than one thread computed a step of so many rows.
bool shared(const LoadOptions& options, size_t rows) {
  const auto engine = Engine::load(data_path("golden/llama-q4_k.gguf"), options).value();
  Engine::Impl& impl = EngineAccess::impl(*engine);
  StepRecorder recorder(impl.device().info().threads);
  const auto record = [&](StepRecorder* to) {
    impl.thread->call([&] { impl.scheduler->set_recorder(to); });
  };
  const std::unique_ptr<Session> session = engine->open_session().value();
  record(&recorder);
  REQUIRE(session->evaluate(std::vector<int32_t>(rows, 5), {}).ok());
  record(nullptr);
  const auto& of_threads = recorder.steps().front().phases;
  return std::ranges::count_if(of_threads, [](const auto& events) { return !events.empty(); }) > 1;
}

TEST_CASE("steps that are too small to share are one thread's, but where threads are asked for") {
  LoadOptions options;
  options.context = 512;
  options.batch_rows = 64;
  const bool several = available_threads() > 1;
  CHECK_FALSE(shared(options, 1));
  CHECK(shared(options, 64) == several);
  options.threads = 2;
  CHECK(shared(options, 1));
}

}  // namespace
}  // namespace infer::test
