// Calls to the driver that can fail do, the first and the last from every place: a typed failure
// comes of it or none, and nothing is leaked. And where the CPU may go on, it does.
#include <doctest.h>

#include <string>
#include <vector>

#include "infer/infer.hpp"
#include "tests/cuda_driver.h"
#include "tests/small_steps.h"
#include "tests/support.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::kPrompt;
using infer::test::small_steps;

/// The driver, which the back end finds anew whenever another call is to fail: so its first calls
/// can as well.
class Failing {
 public:
  Failing() { fail_after(-1); }
  ~Failing() { fail_after(-1); }
  void fail_after(int64_t before) {
    cuda_driver().fail_after(before);
    infer::test::restart_cuda_driver();
  }
  int64_t calls() const { return cuda_driver().calls(); }
  std::vector<int64_t> places(bool last) const { return cuda_driver().places(last); }
  std::string failed() const { return cuda_driver().failed(); }
  int64_t live() const { return cuda_driver().live(); }
};

TEST_CASE("CUDA: each call that fails comes to a typed failure, and nothing is leaked") {
  Failing driver;
  infer::test::check_failing_calls(driver, "cuda", open_device, 20);
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
