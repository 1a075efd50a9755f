#include "tests/validation.h"

#include <doctest.h>

#include <charconv>
#include <mutex>
#include <string>

#include "tests/kept_devices.h"
#include "tests/support.h"

namespace infer::test {
namespace {

/// Says once where nothing is watched.
struct Validation final : doctest::IReporter {
  explicit Validation(const doctest::ContextOptions&) {}

  void test_run_start() override {
    if (!vulkan::Instance::can_validate()) {
      skipped("the validation layer is not installed (Debian: vulkan-validationlayers)");
    }
  }

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

}  // namespace

REGISTER_LISTENER("validation", 1, Validation);

void on_validation_message(const std::string& message) {
  ADD_FAIL_CHECK_AT("the validation layer", 0, message);
}

Result<std::shared_ptr<vulkan::Instance>> watched_instance() {
  static std::mutex mutex;
  static std::weak_ptr<vulkan::Instance> shared;
  const std::lock_guard lock(mutex);
  if (auto kept = kept_instance()) return kept;
  if (auto alive = shared.lock()) return alive;
  INFER_TRY(auto made, vulkan::Instance::create({.on_message = on_validation_message}));
  shared = made;
  return made;
}

OpenDevice opener(const vulkan::VulkanOptions& own) {
  return [own](const std::string& name,
               const DeviceOptions& options) -> Result<std::unique_ptr<Device>> {
    const std::string backend = "vulkan";
    if (!name.starts_with(backend)) return open_device(name, options);
    int32_t index = -1;  // the best
    if (name.size() > backend.size() + 1) {
      std::from_chars(name.data() + backend.size() + 1, name.data() + name.size(), index);
    }
    vulkan::VulkanOptions watched = own;
    if (watched.instance == nullptr) {
      INFER_TRY(watched.instance, watched_instance());
    }
    return vulkan::VulkanDevice::open(index, options.exact, watched);
  };
}

}  // namespace infer::test
