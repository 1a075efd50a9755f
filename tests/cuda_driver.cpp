#include "tests/cuda_driver.h"

#include <doctest.h>

#include <cstdlib>

#include "backends/cuda/driver.h"
#include "engine/core/platform/library.h"

namespace infer::test {
namespace {

/// Stands in before the first test.
struct CudaDriver final : doctest::IReporter {
  explicit CudaDriver(const doctest::ContextOptions&) {}

  void test_run_start() override { restart_cuda_driver(); }

  void report_query(const doctest::QueryData&) override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("cuda_driver", 1, CudaDriver);

}  // namespace

DriverControl& cuda_driver() {
  static DriverControl& control = [&]() -> DriverControl& {
    void* const library = os::open_library(INFER_TEST_DRIVER);
    void* const function =
        library == nullptr ? nullptr : os::find_function(library, "infer_test_driver");
    if (function == nullptr) std::abort();
    return *reinterpret_cast<decltype(&infer_test_driver)>(function)();
  }();
  return control;
}

void restart_cuda_driver() {
  cuda_driver().set_listener(
      [](const std::string& mistake) { ADD_FAIL_CHECK_AT("the driver for tests", 0, mistake); });
  cuda::use_driver_library(INFER_TEST_DRIVER);
}

}  // namespace infer::test
