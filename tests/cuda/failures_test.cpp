// Calls to the driver that can fail do, the first and the last from every place: a typed failure
// comes of it or none, and nothing is leaked. And where the CPU may go on, it does.
#include <doctest.h>

#include <string>
#include <vector>

#include "infer/infer.hpp"
#include "tests/cuda/failing.h"
#include "tests/cuda/gpus.h"
#include "tests/small_steps.h"
#include "tests/support.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Failing;
using infer::test::Gpus;
using infer::test::kPrompt;
using infer::test::small_steps;
using infer::test::TestGpu;

TEST_CASE("CUDA: each call that fails comes to a typed failure, and nothing is leaked") {
  Failing driver;
  infer::test::check_failing_calls(driver, "cuda", open_device, 20);
}

TEST_CASE("CUDA: the same with virtual memory") {
  const Gpus gpus({TestGpu{.virtual_memory = true}});
  Failing driver;
  infer::test::check_failing_calls(driver, "cuda", open_device, 25);
}

TEST_CASE("CUDA: with a fallback the CPU goes on, whatever fails") {
  Failing driver;
  infer::test::check_fallback(driver, "cuda", open_device);
}

TEST_CASE("CUDA: a device that is lost ends what runs, with a message") {
  Failing driver;
  const auto engine =
      Engine::Impl::open(infer::test::small_model(), small_steps("cuda"), open_device).value();
  const auto session = engine->open_session().value();
  cuda_driver().lose();
  for (int round = 0; round < 2; ++round) {  // and each later call
    const Status status = session->evaluate(kPrompt, {});
    CHECK(status.code() == StatusCode::device);
    CHECK(status.message().find("cuda:0") != std::string::npos);
  }
}

}  // namespace
}  // namespace infer::cuda
