// Calls to the driver that can fail do, the first and the last from every place: a typed failure
// comes of it or none, and nothing is leaked. And where the CPU may go on, it does.
#include <doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "infer/infer.hpp"
#include "tests/cuda_driver.h"
#include "tests/small_steps.h"
#include "tests/support.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::DriverControl;
using infer::test::generate;
using infer::test::kPrompt;
using infer::test::small_steps;

/// No call fails after it.
class Failing {
 public:
  Failing() { fail_after(-1); }
  ~Failing() { fail_after(-1); }
  /// The driver is found anew, so that its first calls can fail as well.
  void fail_after(int64_t before) {
    cuda_driver().fail_after(before);
    infer::test::restart_cuda_driver();
  }
};

TEST_CASE("CUDA: each call that fails comes to a typed failure, and nothing is leaked") {
  Failing failing;
  DriverControl& driver = cuda_driver();
  const LoadOptions load = small_steps("cuda");
  const Result<std::vector<int32_t>> expected = generate(load, open_device);
  REQUIRE_MESSAGE(expected.has_value(), expected.error().message());
  const int64_t calls = driver.calls();
  const std::vector<int64_t> places = driver.places(true);
  CHECK(calls > 100);
  CHECK(places.size() > 40);
  CHECK(driver.live() == 0);
  std::set<std::string> functions;
  for (const int64_t n : places) {
    failing.fail_after(n);
    const Result<std::vector<int32_t>> made = generate(load, open_device);
    INFO("call " << n << " of " << calls << ": " << driver.failed());
    functions.insert(driver.failed());
    CHECK(driver.live() == 0);
    if (made) {
      CHECK(*made == *expected);
      continue;
    }
    const StatusCode code = made.error().code();
    CHECK((code == StatusCode::device || code == StatusCode::out_of_memory));
    CHECK(made.error().message().find("cuda") != std::string::npos);
  }
  CHECK(functions.size() >= 20);
  failing.fail_after(-1);
  CHECK(generate(load, open_device).value() == *expected);
}

TEST_CASE("CUDA: with a fallback the CPU goes on, whatever fails") {
  Failing failing;
  DriverControl& driver = cuda_driver();
  const std::vector<int32_t> expected = generate(small_steps("cpu"), open_device).value();
  set_verbosity(Verbosity::quiet);
  LoadOptions load = small_steps("cuda");
  load.fallback = "cpu";
  CHECK(generate(load, open_device).value() == expected);
  const int64_t calls = driver.calls();
  for (const int64_t n : driver.places(false)) {
    failing.fail_after(n);
    const Result<std::vector<int32_t>> made = generate(load, open_device);
    INFO("call " << n << " of " << calls << ": " << driver.failed());
    CHECK(driver.live() == 0);
    // Where memory runs out in the midst of generating, that is a failure.
    if (!made) {
      CHECK(made.error().code() == StatusCode::out_of_memory);
      continue;
    }
    CHECK(*made == expected);
  }
  set_verbosity(Verbosity::warnings);
}

TEST_CASE("CUDA: a device that is lost ends what runs, with a message") {
  Failing failing;
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
