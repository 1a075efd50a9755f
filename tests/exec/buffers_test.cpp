// Weights on devices whose buffers are limited in size.
#include <doctest.h>

#include "tests/steps.h"
#include "tests/test_device.h"

namespace infer {
namespace {

constexpr const char* kModel = "llama-q4_0";

PlanRequest small_steps() {
  PlanRequest request;
  request.context = 64;
  request.max_rows = 4;
  request.max_outputs = 4;
  return request;
}

Result<MemoryPlan> planned(const test::StepModel& opened, Device& device) {
  Device* const devices[] = {&device};
  return opened.plan(devices, small_steps());
}

std::vector<float> logits(const test::StepModel& opened, Device& device, const MemoryPlan& plan) {
  Device* const devices[] = {&device};
  return test::step_logits(opened, devices, small_steps(), plan, 4, 4);
}

TEST_CASE("weights that one buffer cannot hold lie in several, and compute the same") {
  const test::StepModel opened(kModel);
  test::TestDevice device("small");
  const auto whole = planned(opened, device).value();
  REQUIRE(whole.devices[0].weight_buffers.size() == 1);
  const std::vector<float> expected = logits(opened, device, whole);

  device.largest = whole.devices[0].weight_buffers[0] / 3;
  const auto parts = planned(opened, device).value();
  CHECK(parts.devices[0].weight_buffers.size() >= 3);
  CHECK(parts.devices[0].weight_buffers.size() <= 6);
  int64_t sum = 0;
  for (const int64_t bytes : parts.devices[0].weight_buffers) {
    CHECK(bytes <= device.largest);
    sum += bytes;
  }
  CHECK(sum == parts.bytes(Purpose::weights));
  CHECK(sum == whole.devices[0].weight_buffers[0]);
  CHECK(logits(opened, device, parts) == expected);
}

TEST_CASE("a tensor that no buffer holds is named, with both sizes") {
  const test::StepModel opened(kModel);
  test::TestDevice device("small");
  device.largest = 4096;
  const auto plan = planned(opened, device);
  REQUIRE(!plan.has_value());
  CHECK(plan.error().code() == StatusCode::does_not_fit);
  CHECK(plan.error().message().find("token_embd.weight") != std::string::npos);
  CHECK(plan.error().message().find("4.0 KiB") != std::string::npos);
}

}  // namespace
}  // namespace infer
