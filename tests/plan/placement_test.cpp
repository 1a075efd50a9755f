// Which layers go to which device, for devices with memory of their own.
#include <doctest.h>

#include <algorithm>
#include <numeric>

#include "tests/steps.h"
#include "tests/test_device.h"

namespace infer {
namespace {

using test::StepModel;

PlanRequest asked(int64_t offload = -1) {
  PlanRequest request;
  request.context = 64;
  request.max_rows = 4;
  request.max_outputs = 4;
  request.reserve = 0;
  request.offload = offload;
  return request;
}

std::vector<float> logits(const StepModel& opened, std::span<Device* const> devices,
                          const MemoryPlan& plan) {
  return test::step_logits(opened, devices, asked(), plan, 4, 2);
}

TEST_CASE("placement: each number of layers on devices that the host does not see is the same") {
  for (const char* name : {"llama-q4_0", "gpt-oss-mxfp4", "deepseek2-lite-f32", "olmo3-f32"}) {
    const StepModel opened(name);
    test::TestDevice host("cpu");
    test::TestDevice one("one");
    test::TestDevice two("two");
    one.visible = two.visible = false;
    one.free = two.free = int64_t{1} << 30;
    Device* const alone[] = {&host};
    const std::vector<float> expected = logits(opened, alone, opened.plan(alone, asked()).value());
    Device* const devices[] = {&host, &one, &two};
    for (int64_t n = 0; n <= opened.model->info().layers + 1; ++n) {
      INFO(name << " " << n);
      const MemoryPlan plan = opened.plan(devices, asked(n)).value();
      CHECK(plan.placement.offloaded() == n);
      CHECK(logits(opened, devices, plan) == expected);
    }
  }
}

TEST_CASE("placement: what crosses between devices that the host does not see goes in pieces") {
  const StepModel opened("olmo3-f32");
  PlanRequest request = asked(3);
  const auto rows = static_cast<int32_t>((int64_t{1} << 18) / opened.model->info().embedding + 9);
  request.context = request.max_rows = rows;
  test::TestDevice host("cpu");
  test::TestDevice one("one");
  test::TestDevice two("two");
  Device* const alone[] = {&host};
  Device* const devices[] = {&host, &one, &two};
  const auto results = [&](std::span<Device* const> on) {
    return test::step_logits(opened, on, request, opened.plan(on, request).value(), rows, rows);
  };
  const std::vector<float> expected = results(alone);
  REQUIRE(!expected.empty());
  one.visible = two.visible = false;
  one.free = two.free = int64_t{1} << 30;
  CHECK(results(devices) == expected);
}

TEST_CASE("placement: as many layers as fit, and not one more") {
  const StepModel opened("olmo3-f32");
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  Device* const devices[] = {&host, &gpu};
  gpu.free = int64_t{1} << 30;
  const int64_t all = opened.model->info().layers + 1;
  for (int64_t n = 0; n <= all; ++n) {
    INFO(n);
    const MemoryPlan exact = opened.plan(devices, asked(n)).value();
    gpu.free = exact.devices[1].total();
    CHECK(opened.plan(devices, asked()).value().placement.offloaded() >= n - 1);
    CHECK(opened.plan(devices, asked()).value().placement.offloaded() <= n);
    CHECK(opened.plan(devices, asked()).value().devices[1].total() <= gpu.free);
    if (n > 0) {
      gpu.free -= 1;
      CHECK(opened.plan(devices, asked()).value().placement.offloaded() < n);
      const auto refused = opened.plan(devices, asked(n));
      REQUIRE(!refused.has_value());
      CHECK(refused.error().code() == StatusCode::does_not_fit);
      CHECK(refused.error().message().find("gpu has") != std::string::npos);
    }
    gpu.free = int64_t{1} << 30;
  }
}

TEST_CASE("placement: the context that is asked for counts where its layers are") {
  const StepModel opened("olmo3-f32");
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  Device* const devices[] = {&host, &gpu};
  gpu.free = int64_t{1} << 30;
  gpu.free = opened.plan(devices, asked(99)).value().devices[1].total();
  PlanRequest larger = asked();
  larger.context = 64 * 100;
  const MemoryPlan plan = opened.plan(devices, larger).value();
  CHECK(plan.placement.offloaded() < opened.model->info().layers + 1);
  CHECK(plan.devices[0].bytes[static_cast<size_t>(Purpose::kv)] > 0);
  CHECK(plan.devices[1].total() <= gpu.free);
}

TEST_CASE("placement: devices share layers by their free memory, in their order") {
  const std::vector<int64_t> bytes(13, 100);
  const std::vector<std::vector<std::string>> none(3, std::vector<std::string>(14));
  test::TestDevice device("any");
  Device* const devices[] = {&device, &device, &device};
  const std::vector<int64_t> room{7, 3000, 1000};
  const Placement all = place_last(13, bytes, room, none, devices);
  CHECK(all.offloaded() == 13);
  CHECK(all.embedding == 1);
  CHECK(std::ranges::is_sorted(all.layers));
  CHECK(std::ranges::count(all.layers, 1) == 10);
  CHECK(all.output == 2);
  const Placement some = place_last(4, bytes, room, none, devices);
  CHECK(some.embedding == 0);
  CHECK(std::ranges::count(some.layers, 0) == 9);
  CHECK(std::ranges::count(some.layers, 1) == 3);
  CHECK(some.output == 2);
  CHECK(place_last(0, bytes, room, none, devices).offloaded() == 0);
  CHECK(place_last(99, bytes, room, none, devices).offloaded() == 13);
}

TEST_CASE("placement: one device named twice has one memory") {
  const StepModel opened("olmo3-f32");
  test::TestDevice host("cpu");
  test::TestDevice one("gpu");
  test::TestDevice two("gpu");
  one.free = two.free = int64_t{1} << 30;
  Device* const devices[] = {&host, &one, &two};
  const MemoryPlan plan = opened.plan(devices, asked(99)).value();
  REQUIRE(plan.budgets.size() == 2);
  CHECK(plan.budgets[1].devices == std::vector<int32_t>{1, 2});
  CHECK(plan.used(plan.budgets[1]) == plan.devices[1].total() + plan.devices[2].total());
  one.free = two.free = plan.used(plan.budgets[1]) - 1;
  CHECK(!opened.plan(devices, asked(99)).has_value());
}

TEST_CASE("placement: what a device cannot compute stays with the host, and is said") {
  const StepModel opened("olmo3-f32");
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  gpu.visible = false;
  gpu.free = int64_t{1} << 30;
  gpu.refused_layer = 1;
  Device* const alone[] = {&host};
  const std::vector<float> expected = logits(opened, alone, opened.plan(alone, asked()).value());
  Device* const devices[] = {&host, &gpu};
  const MemoryPlan plan = opened.plan(devices, asked()).value();
  CHECK(plan.placement.layers[0] == 1);
  CHECK(plan.placement.layers[1] == 0);
  CHECK(plan.placement.output == 1);
  REQUIRE(plan.placement.refused.size() == 1);
  CHECK(plan.placement.refused[0].find("layer 1 stays on cpu") != std::string::npos);
  CHECK(plan.placement.refused[0].find("not this layer") != std::string::npos);
  CHECK(logits(opened, devices, plan) == expected);
}

}  // namespace
}  // namespace infer
