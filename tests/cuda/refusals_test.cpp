// What a driver says that it can do, and then refuses: the device works without it.
#include <doctest.h>

#include <future>
#include <string>
#include <vector>

#include "infer/infer.hpp"
#include "tests/cuda/gpus.h"
#include "tests/small_steps.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Gpus;
using infer::test::small_model;
using infer::test::small_steps;
using infer::test::TestGpu;

/// The calls that such a GPU refused while the small model computed what the CPU computes; `said`:
/// the log.
int64_t refused(const TestGpu& gpu, std::string& said) {
  const std::vector<int32_t> expected =
      infer::test::generate(small_steps("cpu"), open_device).value();
  const Gpus gpus({gpu});
  set_log_callback([&](Verbosity, std::string_view text) { said += text; });
  const int64_t before = cuda_driver().refusals();
  const auto found = infer::test::generate(small_steps("cuda"), open_device);
  set_log_callback({});
  REQUIRE_MESSAGE(found.has_value(), found.error().message());
  CHECK(*found == expected);
  CHECK(cuda_driver().live() == 0);
  return cuda_driver().refusals() - before;
}

TEST_CASE("refusals: memory is not mapped") {
  std::string said;
  CHECK(refused({.virtual_memory = true, .refuses_mapping = true}, said) > 0);
  CHECK(said.find("the cache grows by copying") != std::string::npos);
}

TEST_CASE("refusals: no kernel begins early") {
  std::string said;
  CHECK(refused({.capability = 90, .refuses_early = true}, said) > 0);
  CHECK(said.find("no kernel begins early") != std::string::npos);
  CHECK(cuda_driver().last_graph().early == 0);
}

/// Texts that are generated side by side, so that the tables of their pages outgrow what a graph
/// copies at first.
std::vector<std::vector<int32_t>> side_by_side() {
  constexpr int32_t kSequences = 16;
  constexpr int32_t kTokens = 6;
  LoadOptions load = small_steps("cuda");
  load.context = 1024;
  load.parallel = kSequences;
  load.batch_rows = load.output_rows = 64;
  const auto engine = Engine::load(small_model(), load);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  std::vector<std::unique_ptr<Session>> sessions;
  for (int32_t i = 0; i < kSequences; ++i) {
    sessions.push_back((*engine)->open_session().value());
  }
  std::vector<int32_t> prompt;
  for (int32_t t = 0; t < 300; ++t) prompt.push_back(t * 13 % 300 + 3);
  REQUIRE(sessions[0]->evaluate(prompt, {}).ok());
  std::vector<std::future<std::vector<int32_t>>> texts;
  for (int32_t i = 0; i < kSequences; ++i) {
    texts.push_back(std::async(std::launch::async, [&, i] {
      std::vector<int32_t> made;
      GenerateOptions options;
      options.max_tokens = kTokens;
      options.ignore_end = true;
      options.sampling.temperature = 0;
      const int32_t first[] = {i + 3};
      const auto result = sessions[static_cast<size_t>(i)]->generate(
          first, options, [&](int32_t token, std::string_view) {
            made.push_back(token);
            return true;
          });
      if (!result) made.clear();
      return made;
    }));
  }
  std::vector<std::vector<int32_t>> all;
  for (auto& text : texts) {
    all.push_back(text.get());
    CHECK(all.back().size() == kTokens);
  }
  return all;
}

TEST_CASE("refusals: the copies of a graph do not change") {
  const std::vector<std::vector<int32_t>> expected = side_by_side();
  const Gpus gpus({TestGpu{.fixed_copies = true}});
  const int64_t before = cuda_driver().refusals();
  CHECK(side_by_side() == expected);
  CHECK(cuda_driver().refusals() > before);
}

}  // namespace
}  // namespace infer::cuda
