// Calls to the driver that can fail do, the first and the last from every place: a typed failure
// comes of it or none, nothing is leaked, and the validation layer has nothing to say. And where
// the CPU may go on, it does.
#include <doctest.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/vulkan/instance.h"
#include "infer/infer.hpp"
#include "tests/small_steps.h"
#include "tests/support.h"
#include "tests/vulkan/failing_calls.h"

namespace infer::vulkan {
namespace {

using infer::test::generate;
using infer::test::kPrompt;
using infer::test::small_steps;

const std::string kModel = infer::test::small_model();

/// What the validation layer says meanwhile; nothing where it is not installed.
class Validation {
 public:
  Validation() {
    if (!Instance::can_validate()) infer::test::skipped("the validation layer is not installed");
  }
  ~Validation() {
    for (const std::string& message : messages_) FAIL_CHECK(message);
  }
  auto listener() {
    return [this](const std::string& message) {
      const std::lock_guard lock(mutex_);
      messages_.push_back(message);
    };
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

bool no_device() {
  for (const DeviceDescription& device : devices()) {
    if (device.name.starts_with("vulkan")) return false;
  }
  infer::test::skipped("vulkan: no device");
  return true;
}

TEST_CASE("each call that fails comes to a typed failure, and nothing is leaked") {
  if (no_device()) return;
  Validation validation;
  test::FailingCalls driver;
  const OpenDevice open = driver.opener(validation.listener());
  infer::test::check_failing_calls(driver, "vulkan", open, 18);
}

TEST_CASE("with a fallback the CPU goes on, whatever fails") {
  if (no_device()) return;
  Validation validation;
  test::FailingCalls driver;
  infer::test::check_fallback(driver, "vulkan", driver.opener(validation.listener()));
}

TEST_CASE("a device that is lost while sessions run: all of them go on on the CPU") {
  if (no_device()) return;
  std::vector<std::string> warnings;
  std::mutex mutex;
  set_log_callback([&](Verbosity, std::string_view text) {
    const std::lock_guard lock(mutex);
    warnings.emplace_back(text);
  });
  {
    test::FailingCalls driver;
    LoadOptions load = small_steps("vulkan");
    load.fallback = "cpu";
    const auto engine = Engine::Impl::open(kModel, load, driver.opener()).value();
    const auto used = engine->open_session().value();
    const auto idle = engine->open_session().value();
    GenerateOptions options;
    options.max_tokens = 40;  // more than wait for a reader that is slow
    options.ignore_end = true;
    options.sampling.temperature = 0;
    const auto run = [&](Session& session, std::span<const int32_t> prompt) {
      std::vector<int32_t> tokens;
      const auto result = session.generate(prompt, options, [&](int32_t token, std::string_view) {
        tokens.push_back(token);
        if (tokens.size() == 2) driver.lose();
        return true;
      });
      REQUIRE_MESSAGE(result.has_value(), result.error().message());
      return tokens;
    };
    REQUIRE(idle->evaluate(kPrompt, {}).ok());
    const std::vector<int32_t> first = run(*used, kPrompt);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("lost") != std::string::npos);
    CHECK(engine->memory().device == "cpu");
    CHECK(engine->devices().back().name == "cpu");
    CHECK(driver.live() == 0);
    const std::vector<int32_t> second = run(*idle, {});
    CHECK(first == second);

    LoadOptions on_cpu = small_steps("vulkan");
    on_cpu.device = "cpu";
    const auto cpu = Engine::load(kModel, on_cpu).value();
    const auto session = cpu->open_session().value();
    CHECK(run(*session, kPrompt) == first);
    const infer::test::TempDir dir;
    CHECK(used->save(dir.path("s")).ok());
    CHECK(session->restore(dir.path("s")).ok());
  }
  set_log_callback({});
}

TEST_CASE("a device that is lost without a fallback ends what runs, with a message") {
  if (no_device()) return;
  test::FailingCalls driver;
  const auto engine = Engine::Impl::open(kModel, small_steps("vulkan"), driver.opener()).value();
  const auto session = engine->open_session().value();
  driver.lose();
  for (int round = 0; round < 2; ++round) {  // and each later call
    const Status status = session->evaluate(kPrompt, {});
    CHECK(status.code() == StatusCode::device);
    CHECK(status.message().find("lost") != std::string::npos);
  }
  CHECK(engine->memory().weights > 0);
}

TEST_CASE("no memory for the compiled shaders that are to be kept fails nothing") {
  if (no_device()) return;
  test::FailingCalls calls;
  calls.claim_pipeline_bytes(SIZE_MAX / 2);  // asked for while the device is closed
  const Result<std::vector<int32_t>> tokens = generate(small_steps("vulkan"), calls.opener());
  REQUIRE_MESSAGE(tokens.has_value(), tokens.error().message());
  CHECK(tokens->size() == 4);
}

TEST_CASE("a fallback is the CPU or nothing; where there is no such device it is taken at once") {
  LoadOptions load = small_steps("vulkan");
  load.fallback = "abacus";
  const auto refused = Engine::load(kModel, load);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::invalid_argument);
  load.fallback = "cpu";
  load.device = "vulkan:99";
  set_verbosity(Verbosity::quiet);
  const auto engine = Engine::load(kModel, load);
  set_verbosity(Verbosity::warnings);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  CHECK((*engine)->devices().back().name == "cpu");
}

}  // namespace
}  // namespace infer::vulkan
