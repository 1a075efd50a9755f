// What a driver says that it can do, and then refuses: the device works without it.
#include <doctest.h>

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

/// What follows a prompt that is long enough for the tables of its pages to outgrow what a graph
/// copies at first.
std::vector<int32_t> after_long_prompt() {
  std::vector<int32_t> prompt;
  for (int32_t t = 0; t < 520; ++t) prompt.push_back(t * 13 % 300 + 3);
  LoadOptions load = small_steps("cuda");
  load.context = 1024;
  load.batch_rows = 64;
  return infer::test::generate(load, open_device, small_model(), prompt).value();
}

TEST_CASE("refusals: the copies of a graph do not change") {
  const std::vector<int32_t> expected = after_long_prompt();
  const Gpus gpus({TestGpu{.fixed_copies = true}});
  const int64_t before = cuda_driver().refusals();
  CHECK(after_long_prompt() == expected);
  CHECK(cuda_driver().refusals() > before);
}

}  // namespace
}  // namespace infer::cuda
