// Keeps Vulkan's validation layer on while test cases run: what it says fails the case.
#include <doctest.h>

#include <string>

#include "backends/vulkan/instance.h"
#include "tests/support.h"

namespace infer::test {
namespace {

void on_message(const std::string& message) {
  ADD_FAIL_CHECK_AT("the validation layer", 0, message);
}

struct Validation final : doctest::IReporter {
  explicit Validation(const doctest::ContextOptions&) {}

  void test_run_start() override {
    if (!vulkan::validate(on_message)) {
      skipped("the validation layer is not installed (Debian: vulkan-validationlayers)");
    }
  }
  void test_case_start(const doctest::TestCaseData&) override { vulkan::validate(on_message); }
  void test_run_end(const doctest::TestRunStats&) override { vulkan::validate(nullptr); }

  void report_query(const doctest::QueryData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

REGISTER_LISTENER("validation", 1, Validation);

}  // namespace infer::test
