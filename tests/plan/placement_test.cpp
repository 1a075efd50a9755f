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

TEST_CASE("placement: layers that share a cache are computed where it is") {
  for (const char* name : {"gemma4-f32", "gemma4-moe-f32", "gemma3n-f32"}) {
    const StepModel opened(name);
    test::TestDevice host("cpu");
    test::TestDevice one("one");
    test::TestDevice two("two");
    one.visible = two.visible = false;
    one.free = two.free = int64_t{1} << 30;
    Device* const alone[] = {&host};
    const std::vector<float> expected = logits(opened, alone, opened.plan(alone, asked()).value());
    Device* const devices[] = {&host, &one, &two};
    bool apart = false;  // attention and feed-forward of a layer
    for (int64_t n = 0; n <= opened.model->info().layers + 1; ++n) {
      INFO(name << " " << n);
      const MemoryPlan plan = opened.plan(devices, asked(n)).value();
      for (const LayerPlace& layer : plan.placement.layers) {
        apart = apart || layer.attention != layer.feed_forward;
      }
      CHECK(logits(opened, devices, plan) == expected);
    }
    CHECK(apart == (std::string(name) != "gemma4-moe-f32"));
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

/// Attention and feed-forward take 50 bytes each, the output 100; experts, if any, as given.
std::vector<int64_t> unit_bytes(int64_t layers, int64_t experts = 0) {
  std::vector<int64_t> bytes;
  for (int64_t layer = 0; layer < layers; ++layer) bytes.insert(bytes.end(), {50, 50, experts});
  bytes.insert(bytes.end(), {100, 100});
  return bytes;
}

int64_t count_on(const Placement& placement, int32_t device) {
  return std::ranges::count(placement.layers, LayerPlace{device, device, device});
}

TEST_CASE("placement: devices share layers by their free memory, in their order") {
  const std::vector<int64_t> bytes = unit_bytes(12);
  const Refusals none(3, std::vector<std::string>(bytes.size()));
  test::TestDevice device("any");
  Device* const devices[] = {&device, &device, &device};
  const std::vector<int64_t> room{7, 3000, 1000};
  const auto placed = [&](int64_t layers) {
    return place_units({layers, 0, {}}, bytes, room, none, devices);
  };
  const Placement all = placed(13);
  CHECK(all.offloaded() == 13);
  CHECK(all.embedding == 1);
  CHECK(std::ranges::is_sorted(all.layers, {}, &LayerPlace::attention));
  CHECK(count_on(all, 1) == 10);
  CHECK(count_on(all, 2) == 2);
  CHECK(all.output == 2);
  const Placement some = placed(4);
  CHECK(some.embedding == 0);
  CHECK(count_on(some, 0) == 9);
  CHECK(count_on(some, 1) == 3);
  CHECK(some.output == 2);
  CHECK(placed(0).offloaded() == 0);
  CHECK(placed(99).offloaded() == 13);
}

TEST_CASE("placement: experts stay with the host, and count for nobody's share") {
  const std::vector<int64_t> bytes = unit_bytes(4, 1000);
  const Refusals none(3, std::vector<std::string>(bytes.size()));
  test::TestDevice device("any");
  Device* const devices[] = {&device, &device, &device};
  const std::vector<int64_t> room{0, 1000, 1000};
  const Placement two = place_units({5, 2, {}}, bytes, room, none, devices);
  CHECK(two.offloaded() == 5);
  CHECK(two.host_experts() == 2);
  // Without their experts the first two layers weigh little: the first device has three layers.
  CHECK(two.layers[0] == LayerPlace{1, 1, 0});
  CHECK(two.layers[1] == LayerPlace{1, 1, 0});
  CHECK(two.layers[2] == LayerPlace{1, 1, 1});
  CHECK(two.layers[3] == LayerPlace{2, 2, 2});
  CHECK(parts_of(two, 0, 4) == "experts of layers 0 to 1");
  CHECK(parts_of(two, 1, 4) == "embedding, layers 0 to 1 without experts, layer 2");
  CHECK(parts_of(two, 2, 4) == "layer 3, output");
  const Placement all = place_units({5, 99, {}}, bytes, room, none, devices);
  CHECK(all.host_experts() == 4);
  CHECK(count_on(all, 0) == 0);
  // A layer without experts has none that could stay.
  const Placement dense = place_units({5, 99, {}}, unit_bytes(4), room, none, devices);
  CHECK(dense.host_experts() == 0);
  CHECK(count_on(dense, 1) + count_on(dense, 2) == 4);
}

TEST_CASE("placement: units that are fixed go where they are told, whatever the rest does") {
  const std::vector<int64_t> bytes = unit_bytes(3, 1000);
  Refusals refused(2, std::vector<std::string>(bytes.size()));
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  Device* const devices[] = {&host, &gpu};
  const std::vector<int64_t> room{0, 1000};
  PlacementRequest request{0, 0, std::vector<int32_t>(bytes.size(), -1)};
  const auto fix = [&](const Unit& unit, int32_t device) {
    request.fixed[static_cast<size_t>(unit_number(unit, 3))] = device;
  };
  fix({UnitKind::attention, 1}, 1);
  fix({UnitKind::experts, 2}, 1);
  const Placement some = place_units(request, bytes, room, refused, devices);
  CHECK(some.layers[0] == LayerPlace{0, 0, 0});
  CHECK(some.layers[1] == LayerPlace{1, 0, 0});
  CHECK(some.layers[2] == LayerPlace{0, 0, 1});
  CHECK(some.offloaded() == 1);
  CHECK(parts_of(some, 1, 3) == "attention of layer 1, experts of layer 2");
  request.layers = 4;
  fix({UnitKind::feed_forward, 0}, 0);
  fix({UnitKind::output, -1}, 0);
  fix({UnitKind::embedding, -1}, 0);
  const Placement most = place_units(request, bytes, room, refused, devices);
  CHECK(most.layers[0] == LayerPlace{1, 0, 1});
  CHECK(most.output == 0);
  CHECK(most.embedding == 0);
  refused[1][static_cast<size_t>(unit_number({UnitKind::experts, 2}, 3))] = "no experts";
  request.layers = 0;
  const Placement less = place_units(request, bytes, room, refused, devices);
  CHECK(less.layers[2] == LayerPlace{0, 0, 0});
  REQUIRE(less.refused.size() == 1);
  CHECK(less.refused[0] ==
        "the expert part of layer 2 stays on cpu: gpu cannot compute no experts");
}

TEST_CASE("placement: attention follows the layer whose cache it reads") {
  const std::vector<int64_t> bytes = unit_bytes(4, 1000);
  Refusals refused(2, std::vector<std::string>(bytes.size()));
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  Device* const devices[] = {&host, &gpu};
  const std::vector<int64_t> room{0, 1000};
  const auto places = [&](int64_t layers) {
    const PlacementRequest request{layers, 0, {}, {0, 1, 1, 0}};
    return place_units(request, bytes, room, refused, devices).layers;
  };
  CHECK(places(3) == std::vector<LayerPlace>{{0, 0, 0}, {0, 0, 0}, {0, 1, 1}, {0, 1, 1}});
  CHECK(places(4) == std::vector<LayerPlace>{{0, 0, 0}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}});
  CHECK(places(5) == std::vector<LayerPlace>{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}});
  refused[1][static_cast<size_t>(unit_number({UnitKind::attention, 2}, 4))] = "this";
  CHECK(places(5) == std::vector<LayerPlace>{{1, 1, 1}, {0, 1, 1}, {0, 0, 0}, {1, 1, 1}});
}

TEST_CASE("placement: experts on the host, the rest elsewhere: the same logits") {
  for (const char* name : {"gpt-oss-mxfp4", "deepseek2-lite-f32", "qwen3moe-f32"}) {
    const StepModel opened(name);
    test::TestDevice host("cpu");
    test::TestDevice one("one");
    test::TestDevice two("two");
    one.visible = two.visible = false;
    one.free = two.free = int64_t{1} << 30;
    Device* const alone[] = {&host};
    const std::vector<float> expected = logits(opened, alone, opened.plan(alone, asked()).value());
    Device* const devices[] = {&host, &one, &two};
    const int64_t layers = opened.model->info().layers;
    for (int64_t n = 0; n <= layers; ++n) {
      INFO(name << " " << n);
      PlanRequest request = asked(layers + 1);
      request.host_experts = n;
      const MemoryPlan plan = opened.plan(devices, request).value();
      CHECK(plan.placement.offloaded() == layers + 1);
      CHECK(plan.placement.host_experts() <= n);
      if (n == layers) CHECK(plan.placement.host_experts() > 0);
      CHECK(logits(opened, devices, plan) == expected);
    }
  }
}

TEST_CASE("placement: devices that compute beside the host wait for what they need, and no more") {
  for (const char* name : {"deepseek2-lite-f32", "granitemoe-f32", "olmo3-f32"}) {
    const StepModel opened(name);
    test::TestDevice host("cpu");
    test::TestDevice one("one");
    test::TestDevice two("two");
    one.visible = false;
    one.free = two.free = int64_t{1} << 30;
    one.computes_beside = two.computes_beside = true;
    Device* const alone[] = {&host};
    const std::vector<float> expected = logits(opened, alone, opened.plan(alone, asked()).value());
    Device* const devices[] = {&host, &one, &two};
    const int64_t layers = opened.model->info().layers;
    for (int64_t n = 0; n <= layers + 1; ++n) {
      for (const int64_t kept : {int64_t{0}, layers}) {
        INFO(name << " " << n << " " << kept);
        PlanRequest request = asked(n);
        request.host_experts = kept;
        CHECK(logits(opened, devices, opened.plan(devices, request).value()) == expected);
      }
    }
  }
}

TEST_CASE("placement: a shared expert is computed while the host computes the experts") {
  const StepModel opened("granitemoe-f32");
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  gpu.visible = false;
  gpu.free = int64_t{1} << 30;
  gpu.computes_beside = true;
  std::vector<std::pair<std::string, Unit>> started;  // who starts, with what
  const auto note = [&](const char* who) {
    return [&started, who](const Segment& segment) {
      started.emplace_back(who, segment.nodes()[0].unit);
    };
  };
  host.on_submit = note("host");
  gpu.on_submit = note("gpu");
  Device* const devices[] = {&host, &gpu};
  PlanRequest request = asked(opened.model->info().layers + 1);
  request.host_experts = opened.model->info().layers;
  const MemoryPlan plan = opened.plan(devices, request).value();
  started.clear();
  CHECK(!test::step_logits(opened, devices, asked(), plan, 1, 1).empty());
  int overlapped = 0;
  for (size_t i = 1; i < started.size(); ++i) {
    if (started[i].first != "host") continue;
    CHECK(started[i].second.kind == UnitKind::experts);
    // The shared expert has started before the host is busy with the experts.
    CHECK(started[i - 1].first == "gpu");
    CHECK(started[i - 1].second.kind == UnitKind::feed_forward);
    CHECK(started[i - 1].second.layer == started[i].second.layer);
    ++overlapped;
  }
  CHECK(overlapped == opened.model->info().layers);
}

TEST_CASE("placement: where not all fits, experts stay with the host before layers do") {
  const StepModel opened("gpt-oss-mxfp4");
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  gpu.visible = false;
  Device* const devices[] = {&host, &gpu};
  const int64_t layers = opened.model->info().layers;
  gpu.free = int64_t{1} << 30;
  const auto needed = [&](int64_t kept) {
    PlanRequest request = asked(layers + 1);
    request.host_experts = kept;
    return opened.plan(devices, request).value().devices[1].total();
  };
  for (int64_t kept = 0; kept <= layers; ++kept) {
    INFO(kept);
    gpu.free = int64_t{1} << 30;
    gpu.free = needed(kept);
    const MemoryPlan plan = opened.plan(devices, asked()).value();
    CHECK(plan.devices[1].total() <= gpu.free);
    CHECK(plan.placement.offloaded() >= layers);  // what is estimated may be a little too much
    CHECK(plan.placement.host_experts() >= kept);
    CHECK(plan.placement.host_experts() <= kept + 1);
  }
  gpu.free -= gpu.free / 3;
  const MemoryPlan less = opened.plan(devices, asked()).value();
  CHECK(less.placement.offloaded() < layers + 1);
  CHECK(less.placement.host_experts() ==
        std::ranges::count_if(less.placement.layers,
                              [](const LayerPlace& at) { return at.attention > 0; }));
}

TEST_CASE("placement: weights of one unit for two devices are refused by name") {
  const StepModel opened("gpt-oss-mxfp4");
  test::TestDevice host("cpu");
  test::TestDevice gpu("gpu");
  Device* const devices[] = {&host, &gpu};
  PlanRequest request = asked();
  request.weight_devices.assign(opened.source->weights().size(), -1);
  const auto put = [&](const char* name, int32_t device) {
    request.weight_devices[static_cast<size_t>(opened.weights->index(name))] = device;
  };
  put("blk.1.ffn_up_exps.weight", 0);
  CHECK(opened.plan(devices, request).value().placement.layers[1] == LayerPlace{1, 1, 0});
  put("blk.1.ffn_down_exps.weight", 1);
  const auto plan = opened.plan(devices, request);
  REQUIRE(!plan.has_value());
  CHECK(plan.error().code() == StatusCode::invalid_argument);
  CHECK(plan.error().message().find(
            "'blk.1.ffn_up_exps.weight' and 'blk.1.ffn_down_exps.weight'") != std::string::npos);
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
  CHECK(plan.placement.layers[0] == LayerPlace{1, 1, 1});
  CHECK(plan.placement.layers[1] == LayerPlace{0, 0, 0});
  CHECK(plan.placement.output == 1);
  REQUIRE(plan.placement.refused.size() == 1);
  CHECK(plan.placement.refused[0].find("layer 1 stays on cpu") != std::string::npos);
  CHECK(plan.placement.refused[0].find("not this layer") != std::string::npos);
  CHECK(logits(opened, devices, plan) == expected);
}

}  // namespace
}  // namespace infer
